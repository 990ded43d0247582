"""A setting of the whole machine that a run changes, and puts back: when it ends, when it fails, and when it is killed.

What it was stands in a file until it is put back. A process beside us waits for our end, whatever ends us, and puts back what we have not; and
where that one was killed, too, the next run does it.
"""

import glob
import os
import subprocess
from contextlib import contextmanager

from testbed import shell
from testbed.errors import NotRun

UNDO = "/run"
PREFIX = "thalweg-setting-"
PROC = "/proc/sys"
# Waits until its input is closed, which the kernel does for whoever ends; then, if it is still to be undone, undoes it.
GUARD = 'cat >/dev/null; [ -e "$1" ] && cat "$1" >"$2" && rm -f "$1"'


@contextmanager
def changed(name, value, undo=UNDO, root=PROC):
    """Have the setting `name` (kernel.perf_event_paranoid) be `value` meanwhile; `NotRun` where it cannot be set."""
    put_back(undo, root)
    path, kept = _path(root, name), os.path.join(undo, PREFIX + name)
    before = shell.read(path)
    if before is None:
        raise NotRun(f"this kernel has no {name}")
    if before == str(value):
        yield
        return
    with open(f"{kept}.new", "w") as out:
        out.write(before + "\n")
    os.rename(f"{kept}.new", kept)
    # In a session of its own: what is sent to all of ours at the terminal does not end it.
    guard = subprocess.Popen(["sh", "-c", GUARD, "guard", kept, path], stdin=subprocess.PIPE, start_new_session=True)
    try:
        shell.write(path, value)
        yield
    finally:
        guard.stdin.close()
        guard.wait()
        put_back(undo, root)


def put_back(undo=UNDO, root=PROC):
    """Put back what runs have left changed that were killed; only where no other run changes it now, which callers see to. The names."""
    names = []
    for kept in sorted(glob.glob(os.path.join(undo, f"{PREFIX}*"))):
        name = os.path.basename(kept).removeprefix(PREFIX)
        if name.endswith(".new"):
            continue
        shell.write(_path(root, name), shell.read(kept))
        os.unlink(kept)
        names.append(name)
    return names


def _path(root, name):
    return os.path.join(root, *name.split("."))
