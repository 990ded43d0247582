"""pjdfstest: what POSIX says of every system call on names, modes, owners and times, one test for each sentence.

Its tests switch users, so that most of them need root. Those it skips for lack of BSD's file flags and NFSv4's access lists, which
Linux does not have, are not counted.
"""

import os
import re
import tempfile

from gates.harness.case import Case
from testbed.errors import NotRun

TITLE = "POSIX, call by call"
SHORT_S = 60
ORDER = 10

RESULT = re.compile(r"^(\S+)\s+(ok|FAILED|skipped)\s*$")
NOT_OF_LINUX = re.compile(r"requires features: .*(chflags|nfsv4_acls)|file flags|lchmod is not supported")
CONFIGURATION = """
[features]
posix_fallocate = {{}}
rename_ctime = {{}}
stat_st_birthtime = {{}}
utime_now = {{}}
utimensat = {{}}
secondary_fs = "{secondary}"
[settings]
naptime = 0.02
allow_remount = false
[dummy_auth]
entries = [["nobody", "nogroup"], ["daemon", "daemon"]]
"""


def cases(fixture):
    """One case for each test of the suite."""
    program = fixture.crate("pjdfstest")
    os.chmod(fixture.path, 0o755)
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as secondary:
        configuration = os.path.join(fixture.scratch, "pjdfstest.toml")
        with open(configuration, "w") as out:
            out.write(CONFIGURATION.format(secondary=secondary))
        done = fixture.run([program, "-c", configuration, "-p", fixture.path], 600, env={"NO_COLOR": "1"})
    found = list(read(done.output))
    if not found:
        raise NotRun(f"pjdfstest said nothing: {done.last_lines()}") if os.geteuid() else RuntimeError(done.last_lines())
    yield from (case for case in found if not (case.state == "skipped" and NOT_OF_LINUX.search(case.reason)))
    if done.code is None or "Summary" not in done.output:
        yield Case("the suite comes to its end", "failed", f"{len(found)} tests, then: {done.last_lines()}")


def read(output):
    """The suite's lines as cases; what it prints below a line is the reason."""
    case = None
    for line in output.splitlines():
        told = RESULT.match(line)
        if told:
            if case:
                yield case
            case = Case(told[1], {"ok": "passed", "FAILED": "failed", "skipped": "skipped"}[told[2]], checks=1)
        elif case and line.startswith("\t") and case.state != "passed":
            case.reason = f"{case.reason} {line.strip()}".strip()[:300]
        elif line.startswith("Summary"):
            break
    if case:
        yield case
