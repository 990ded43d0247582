"""A directory of one run, and what else has its name: namespaces, control groups, mounts. What a killed run left, the next one removes.

The directory is ours while a lock on its marker is held. A process number says nothing: it is given again, and another process
namespace has others. A lock ends with its process.
"""

import fcntl
import glob
import os
import shutil
import stat

from testbed import cgroups, shell
from testbed.hosts import end_namespace

BASE = "/dev/shm"
MARKER = "made-by"
TEXT = "A directory of {prefix}. It may be removed when nobody holds a lock on this file.\n"


class Scratch:
    """Entered, `directory` (BASE/PREFIX-PID) is there and everybody may look into it; `name` begins the names of all that goes with it."""

    def __init__(self, prefix, base=BASE):
        self.prefix = prefix
        self.base = base
        self.name = f"{prefix}-{os.getpid()}"
        self.directory = os.path.join(base, self.name)
        self.marker = None

    def __enter__(self):
        remove_leftovers(self.prefix, self.base)
        self.marker = mark(self.directory, self.prefix)
        # Servers that become `nobody` must reach what is in it.
        os.chmod(self.directory, 0o755)
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.directory, ignore_errors=True)
        self.marker.close()


def mark(directory, prefix):
    """Make a directory that is ours until the file that is returned is closed."""
    os.mkdir(directory)
    hidden = os.path.join(directory, MARKER + ".new")
    marker = open(hidden, "x")
    marker.write(TEXT.format(prefix=prefix))
    marker.flush()
    fcntl.flock(marker, fcntl.LOCK_EX | fcntl.LOCK_NB)
    # It gets its name only now: no marker is ever seen before it is locked.
    os.rename(hidden, os.path.join(directory, MARKER))
    return marker


def is_abandoned(directory, prefix):
    """Whether a directory was made by a run of this kind that is gone. Anything else is not ours to remove."""
    try:
        status = os.lstat(directory)
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or os.path.ismount(directory):
            return False
        handle = os.open(os.path.join(directory, MARKER), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(handle) as marker:
            if not stat.S_ISREG(os.fstat(handle).st_mode) or os.fstat(handle).st_uid != os.geteuid():
                return False
            fcntl.flock(marker, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return marker.read(1024) == TEXT.format(prefix=prefix)
    except (OSError, UnicodeDecodeError):
        return False


def remove_leftovers(prefix, base=BASE):
    """Remove what runs of this kind have left whose process is gone."""
    for directory in glob.glob(f"{base}/{prefix}-*"):
        if not is_abandoned(directory, prefix):
            continue
        name = os.path.basename(directory)
        for path in glob.glob(f"/run/netns/{name}-*"):
            end_namespace(os.path.basename(path))
        shell.run("ip", "link", "delete", f"b{name.rpartition('-')[2]}", "type", "bridge", check=False)
        cgroups.remove_leftovers(name)
        for line in reversed((shell.read("/proc/self/mounts") or "").splitlines()):
            device, point = line.split()[:2]
            if point.startswith(f"{directory}/"):
                shell.run("umount", "--lazy", point, check=False)
                if device.startswith("/dev/loop"):
                    shell.run("losetup", "--detach", device, check=False)
        # The marker goes last: until then what is left is known for what it is.
        shutil.rmtree(directory, ignore_errors=True)
