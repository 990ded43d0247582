"""Bare Debian systems in directories, made by debootstrap once, each used through an overlay that is thrown away.

They share this machine's kernel, and nothing else: what a program needs beyond them is missing.
"""

import contextlib
import os
import shutil
import subprocess
import tempfile

from testbed.errors import Broken, NotRun
from testbed.paths import TARGET

MIRROR = os.environ.get("THALWEG_MIRROR", "http://deb.debian.org/debian")
ROOTS = os.path.join(TARGET, "roots")
# Installing Debian's base takes a minute or two; a mirror that does not answer must not hang the suite.
LIMIT_S = 900


def base(suite, include=()):
    """The directory with the bare system of `suite`, plus the packages `include`, made if it is not there yet."""
    if os.geteuid() != 0:
        raise NotRun("debootstrap and chroot need root")
    if shutil.which("debootstrap") is None:
        raise NotRun("debootstrap is missing (apt-get install debootstrap)")
    directory = os.path.join(ROOTS, "-".join((suite, *include)))
    if os.path.exists(directory):
        return directory
    made = f"{directory}.part"
    shutil.rmtree(made, ignore_errors=True)
    os.makedirs(made)
    chosen = [f"--include={','.join(include)}"] if include else []
    command = ["debootstrap", "--variant=minbase", *chosen, suite, made, MIRROR]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode != 0:
        raise NotRun(f"{' '.join(command[:3])} … {suite} failed: {done.stdout.strip().splitlines()[-1:]}")
    os.rename(made, directory)
    return directory


class Root:
    """A bare system that may be changed."""

    def __init__(self, directory, mount):
        self.directory = directory
        self._mount = mount

    def bind(self, source, inside):
        """Show a directory of this machine inside."""
        os.makedirs(self.path(inside), exist_ok=True)
        self._mount(self.path(inside), "--bind", source)

    def path(self, inside):
        """Where a file of the system is, seen from outside."""
        return os.path.join(self.directory, inside.lstrip("/"))

    def command(self, script, user=None):
        """The command line that runs a shell script inside."""
        switched = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"] if user else []
        environment = ["env", "-i", "HOME=/root" if not user else "HOME=/tmp", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C"]
        return ["chroot", self.directory, *environment, *switched, "sh", "-ec", script]

    def run(self, script, user=None, timeout=120, fails=False):
        """Run a shell script inside; returns what it printed on both streams. Unless `fails`, exit codes other than 0 are `Broken`."""
        done = subprocess.run(
            self.command(script, user), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout, check=False
        )
        if (done.returncode != 0) != fails:
            raise Broken(f"exit code {done.returncode} of\n{script}\n{done.stdout[-2000:]}")
        return done.stdout

    def files(self):
        """All names below the system's own directories, with what a reader sees of each: type, mode, owner, and a file's size."""
        found = {}
        for directory, below, names in os.walk(self.directory):
            if directory == self.directory:
                below[:] = [name for name in below if name not in ("proc", "sys", "dev", "tmp")]
            for name in (*below, *names):
                path = os.path.join(directory, name)
                status = os.lstat(path)
                size = status.st_size if not os.path.isdir(path) or os.path.islink(path) else 0
                found[os.path.relpath(path, self.directory)] = (oct(status.st_mode), status.st_uid, status.st_gid, size)
        return found


@contextlib.contextmanager
def fresh(suite, include=()):
    """A bare system that nobody has changed yet, with /proc, /sys and /dev; it is gone afterwards."""
    lower = base(suite, include)
    with tempfile.TemporaryDirectory(prefix="thalweg-root-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as scratch:
        above, work, root = (os.path.join(scratch, name) for name in ("above", "work", "root"))
        for directory in (above, work, root):
            os.mkdir(directory)
        mounted = []

        def mount(where, *options):
            subprocess.run(["mount", *options, where], check=True, capture_output=True)
            mounted.append(where)

        try:
            mount(root, "-t", "overlay", "overlay", "-o", f"lowerdir={lower},upperdir={above},workdir={work}")
            mount(os.path.join(root, "proc"), "-t", "proc", "proc")
            mount(os.path.join(root, "sys"), "--rbind", "--make-rslave", "/sys")
            mount(os.path.join(root, "dev"), "--rbind", "--make-rslave", "/dev")
            mount(os.path.join(root, "tmp"), "-t", "tmpfs", "tmpfs")
            yield Root(root, mount)
        finally:
            for where in reversed(mounted):
                subprocess.run(["umount", "-R", "-l", where], check=False, capture_output=True)
