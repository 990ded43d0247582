"""Whose a directory is that has our name: a marker in it, locked for as long as its maker lives.

A process number says nothing: it is given again, and another process namespace has others. A lock ends with its process.
"""

import fcntl
import os
import stat

MARKER = "made-by"
TEXT = "A directory of {kind}. It may be removed when nobody holds a lock on this file.\n"


class Claim:
    """Makes a directory, and holds the lock on its marker until it is released."""

    def __init__(self, directory, kind):
        os.mkdir(directory, 0o755)
        hidden = os.path.join(directory, MARKER + ".new")
        self.marker = open(hidden, "x")
        self.marker.write(TEXT.format(kind=kind))
        self.marker.flush()
        fcntl.flock(self.marker, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Only now it has its name: none is ever seen unlocked before its time.
        os.rename(hidden, os.path.join(directory, MARKER))

    def release(self):
        """Whoever comes next may remove the directory."""
        self.marker.close()


def abandoned(directory, kind):
    """Whether a directory of this kind was made by one of us that is gone. Anything else is not ours to remove."""
    try:
        status = os.lstat(directory)
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or os.path.ismount(directory):
            return False
        handle = os.open(os.path.join(directory, MARKER), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(handle) as marker:
            if not stat.S_ISREG(os.fstat(handle).st_mode) or os.fstat(handle).st_uid != os.geteuid():
                return False
            fcntl.flock(marker, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return marker.read(1024) == TEXT.format(kind=kind)
    except (OSError, UnicodeDecodeError):
        return False
