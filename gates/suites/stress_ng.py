"""stress-ng's file system stressors, one after the other, each with its own verification of what it did."""

import re

from gates.harness.case import attempt
from testbed.errors import Broken, NotRun

TITLE = "stressors of every system call on files"
SHORT_S = 0
ORDER = 85

# Those that use the directory they are given; not those of one kernel file system, of /proc, or of the memory; not io-uring, which
# fails on any file system (it asks for the attributes of a file that it has removed).
STRESSORS = """access acl aiol chattr chdir chmod chown copy-file dentry dir dirdeep dirmany dup fallocate fanotify fcntl fiemap file-ioctl
filename flock fpunch fsize fstat getdent hdd inode-flags inotify io iomix ioprio lease link locka lockf lockofd metamix mknod mmap
mmapfixed open rename readahead revio seek sendfile splice symlink sync-file touch unlink utime verity xattr""".split()
OPTIONS = {
    "copy-file": ["--copy-file-bytes", "128m"],
    "dirmany": ["--dirmany-bytes", "0"],
    "fallocate": ["--fallocate-bytes", "32m"],
    "fiemap": ["--fiemap-bytes", "32m"],
    "hdd": ["--hdd-bytes", "64m", "--hdd-opts", "wr-rnd,rd-rnd"],
    "iomix": ["--iomix-bytes", "32m"],
    "mmap": ["--mmap-file", "--mmap-bytes", "16m"],
    "readahead": ["--readahead-bytes", "32m"],
    "revio": ["--revio-bytes", "32m"],
}


def cases(fixture):
    """One case for each stressor."""
    fixture.debian(**{"stress-ng": "stress-ng"})
    for name in STRESSORS:
        yield attempt(name, _run, fixture, name)


def _run(fixture, name):
    directory, _ = fixture.inside(name)
    argv = ["stress-ng", "--temp-path", directory, "--timeout", "4s", "--verify", "--metrics-brief", f"--{name}", "2"]
    argv += OPTIONS.get(name, [])
    done = fixture.run(argv, 180)
    text = done.output
    if "unrecognized option" in text or "not implemented" in text or "skipping stressor" in text or done.code in (3, 4):
        raise NotRun(done.last_lines(2))
    wrong = [line.strip() for line in text.splitlines() if re.search(r"fail:|error:|FAIL|aborted", line)]
    if done.code != 0 or wrong:
        raise Broken(f"exit code {done.code}: {' | '.join(wrong[:3])[:500] or done.last_lines()}")
    told = re.search(rf"\] {re.escape(name)}\s+(\d+)\s", text)
    return int(told[1]) if told else 1
