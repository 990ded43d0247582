"""bonnie++: its four phases (blocks, characters, seeks, and creating, looking at and removing many files) come to their end.

It verifies what it reads back. Its figures are no benchmark here; they are in its output.
"""

from gatehouse.case import Wrong, attempt

TITLE = "bonnie++ to its end"
SHORT = False
ORDER = 90


def cases(visit):
    """One case for each set of options."""
    visit.debian(**{"bonnie++": "bonnie++"})
    yield attempt("256 MiB, 1,024 files", _run, visit, ["-s", "256", "-r", "128", "-n", "1"])
    yield attempt("files of 1 B to 64 KiB in 8 directories", _run, visit, ["-s", "0", "-n", "2:65536:1:8"])
    yield attempt("synced after each write", _run, visit, ["-s", "16", "-r", "8", "-n", "0", "-b"])


def _run(visit, options):
    done = visit.run(["bonnie++", "-d", visit.path, "-u", "root", "-m", "gate", "-q", *options], 900)
    if done.code != 0:
        raise Wrong(f"exit code {done.code}: {done.last_words()}")
    if "gate" not in done.output.splitlines()[-1]:
        raise Wrong(f"it did not come to its end: {done.last_words()}")
    return 1
