"""bonnie++: its four phases (blocks, characters, seeks, and creating, looking at and removing many files) come to their end.

It verifies what it reads back. Its figures are no benchmark here; they are in its output.
"""

from gates.harness.case import attempt
from testbed.errors import Broken

TITLE = "bonnie++ to its end"
SHORT_S = 0
ORDER = 90


def cases(fixture):
    """One case for each set of options."""
    fixture.debian(**{"bonnie++": "bonnie++"})
    yield attempt("256 MiB, 1,024 files", _run, fixture, ["-s", "256", "-r", "128", "-n", "1"])
    yield attempt("files of 1 B to 64 KiB in 8 directories", _run, fixture, ["-s", "0", "-n", "2:65536:1:8"])
    yield attempt("synced after each write", _run, fixture, ["-s", "16", "-r", "8", "-n", "0", "-b"])


def _run(fixture, options):
    done = fixture.run(["bonnie++", "-d", fixture.path, "-u", "root", "-m", "gate", "-q", *options], 900)
    if done.code != 0:
        raise Broken(f"exit code {done.code}: {done.last_lines()}")
    if "gate" not in done.output.splitlines()[-1]:
        raise Broken(f"it did not come to its end: {done.last_lines()}")
    return 1
