"""An ordinary user: how root starts a command as one, with that user's home, search path and nothing of root's.

What such a command may reach is what everybody may: directories of root's are not in its search path, and what root made for it
is handed over (`give`).
"""

import os
import shutil
import subprocess
import sys

from testbed.errors import NotRun

NOBODY_ID = 65534
# What belongs to root's session, or would lead to root's files.
ROOTS_OWN = ("XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "SUDO_USER", "MAIL", "THALWEG_CREDENTIAL")
REFUSE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "refuse.py")
# Whom scripts that stay root's make their files and keys for.
FOR_USER = "THALWEG_LAB_USER"


class User:
    """`nobody`, with a home of its own; root starts commands as this user."""

    def __init__(self, home, number=NOBODY_ID, name="nobody"):
        self.home = home
        self.number = number
        self.name = name

    def make(self):
        """Make the home."""
        os.makedirs(self.home, exist_ok=True)
        self.give(self.home)

    def argv(self, argv, variables=()):
        """The command as this user starts it; `variables` are more of its environment, as NAME=VALUE."""
        without = [word for name in ROOTS_OWN if name in os.environ for word in ("-u", name)]
        own = [f"HOME={self.home}", f"USER={self.name}", f"LOGNAME={self.name}", f"PATH={search_path()}"]
        # Whose parent dies ends with it: a change of user takes back what its parent asked for.
        become = ["setpriv", f"--reuid={self.number}", f"--regid={self.number}", "--clear-groups", "--pdeathsig", "TERM"]
        return [*become, "env", *without, *own, *variables, *argv]

    def give(self, *paths):
        """Have files, and all below them on the same file system, be this user's."""
        words = ["find", *paths, "-xdev", "!", "-uid", str(self.number), "!", "-name", "lost+found", "-exec", "chown", "-h", f"{self.number}:{self.number}", "{}", "+"]
        # A file that goes meanwhile needs no owner.
        subprocess.run(words, capture_output=True, check=False, stdin=subprocess.DEVNULL)

    def must_reach(self, *paths):
        """`NotRun` where a path leads through a directory that is not everybody's."""
        for path in paths:
            if not is_everybodys(path):
                raise NotRun(f"{self.name} cannot reach {path}: a directory on the way is not everybody's; put the checkout where everybody may go")


def search_path(path=None):
    """The directories of a search path that everybody may look into."""
    every = (os.environ.get("PATH", "") if path is None else path).split(os.pathsep)
    usual = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"]
    return os.pathsep.join(dict.fromkeys([one for one in every if one and is_everybodys(one)] + usual))


def is_everybodys(path):
    """Whether everybody may go through all directories on the way to a path."""
    path = os.path.realpath(path)
    above = [path] if os.path.isdir(path) else []
    while path != os.path.dirname(path):
        path = os.path.dirname(path)
        above.append(path)
    try:
        return all(os.stat(one).st_mode & 0o001 for one in above)
    except OSError:
        return False


def refused(call, argv):
    """The command with a system call refused (EACCES), as on a machine whose settings refuse it; only root may start it."""
    return [sys.executable, "-S", REFUSE, call, *argv]


def program(name):
    """A program's path as such a user finds it."""
    found = shutil.which(name, path=search_path())
    if not found:
        raise NotRun(f"there is no {name} for an ordinary user on this machine")
    return found
