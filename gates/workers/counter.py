"""counter HOW FILE COUNT: add one to the number in a file, so many times, each under a lock.

HOW: `flock`, `fcntl` (the whole file), `range` (one byte far beyond the end), `excl` (a lock file made with O_EXCL), `link` (one made
with link(2)).
"""

import errno
import fcntl
import os
import struct
import sys
import time

FAR = 1 << 40


def main(how, path, count):
    descriptor = os.open(path, os.O_RDWR)
    for _ in range(count):
        take(how, path, descriptor)
        told = os.pread(descriptor, 8, 0)
        os.pwrite(descriptor, struct.pack("<Q", struct.unpack("<Q", told)[0] + 1), 0)
        give(how, path, descriptor)
    os.close(descriptor)
    return 0


def take(how, path, descriptor):
    """Wait for the lock, and see what others wrote under it."""
    if how == "flock":
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    elif how == "fcntl":
        fcntl.lockf(descriptor, fcntl.LOCK_EX)
    elif how == "range":
        fcntl.lockf(descriptor, fcntl.LOCK_EX, 1, FAR)
    else:
        while not made(how, path):
            time.sleep(0.0005)


def made(how, path):
    """Whether the lock file is ours."""
    try:
        if how == "excl":
            os.close(os.open(path + ".lock", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        else:
            mine = f"{path}.{os.getpid()}"
            os.close(os.open(mine, os.O_CREAT | os.O_WRONLY))
            try:
                os.link(mine, path + ".lock")
            finally:
                os.unlink(mine)
        return True
    except OSError as why:
        if why.errno == errno.EEXIST:
            return False
        raise


def give(how, path, descriptor):
    """Let others have it; what was written is theirs to see."""
    if how == "flock":
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    elif how == "fcntl":
        fcntl.lockf(descriptor, fcntl.LOCK_UN)
    elif how == "range":
        fcntl.lockf(descriptor, fcntl.LOCK_UN, 1, FAR)
    else:
        os.unlink(path + ".lock")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
