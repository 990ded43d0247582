"""Where a gate runs: a store mounted twice, or any directory (the reference that says whether a case is wrong itself).

A gate has a place of its own: `path` is an empty directory, `second` the same directory as another client sees it (another mount of
the store; on a reference file system the same path). A mounted place is a whole store: servers, two mounts, and as many more as a
case wants to kill. When the gate is over everything in it is removed, the mounts are ended, and what the store still holds is
looked at; that is a case of its own.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from gatehouse.case import NotRun, Wrong
from servers.process import Server, Unavailable

START_S = 30.0
UMOUNT_S = 60.0
REMOVE_S = 120.0


class Directory:
    """A directory of any file system."""

    is_store = False

    def __init__(self, directory):
        self.root = os.path.join(os.path.abspath(directory), f"thalweg-gate-{os.getpid()}")
        self.path = self.second = self.root

    def __enter__(self):
        os.makedirs(self.root)
        os.chmod(self.root, 0o755)
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.root, ignore_errors=True)

    def give_up(self):
        """There is nothing that could be ended."""

    def another(self, *_flags):
        """Another client that may be killed."""
        raise NotRun("only a mounted store has clients that can be killed")

    def leave(self):
        """Nothing that belongs to the place is left to look at."""
        raise NotRun("only a store has datafiles that could be left")


class Mount:
    """One mount, in the foreground of a process of ours; `path` is the mount point."""

    def __init__(self, program, address, path, log, flags=()):
        self.program = program
        self.path = path
        os.makedirs(path, exist_ok=True)
        self.server = Server([program, "mount", "--foreground", *flags, address, path], log)
        try:
            self.server.wait_until(f"the mount at {path}", lambda: path in mount_points())
        except BaseException:
            self.end()
            raise

    @property
    def pid(self):
        """The process that answers."""
        return self.server.pid

    def is_there(self):
        """Whether the process lives and the mount point is one."""
        return self.server.process.poll() is None and self.path in mount_points()

    def unmount(self):
        """End it in order: `Wrong` with what the command said if that is not possible."""
        try:
            done = subprocess.run([self.program, "umount", self.path], capture_output=True, text=True, timeout=UMOUNT_S, check=False)
        except subprocess.TimeoutExpired:
            raise Wrong(f"thalweg umount was still busy after {UMOUNT_S:.0f} s") from None
        if done.returncode != 0:
            raise Wrong(f"thalweg umount: exit code {done.returncode}: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
        if self.path in mount_points():
            raise Wrong("thalweg umount returned, and the mount is still there")
        try:
            self.server.process.wait(5)
        except subprocess.TimeoutExpired:
            raise Wrong("thalweg umount returned, and the mount's process is still there") from None

    def kill(self):
        """The client dies, from one moment to the next."""
        os.killpg(self.pid, signal.SIGKILL)
        self.server.process.wait()
        self.end()

    def end(self):
        """Whatever state it is in: afterwards there is no process and no mount."""
        if self.server.process.poll() is None:
            self.server.stop()
        if self.path in mount_points():
            subprocess.run(["umount", "-l", self.path], capture_output=True, check=False)
        if self.path in mount_points():
            subprocess.run(["fusermount3", "-u", "-z", self.path], capture_output=True, check=False)


class Mounted:
    """A store of its own under `directory`, mounted twice."""

    is_store = True

    def __init__(self, program, directory, flags=(), servers=2, targets=2):
        self.program = program
        self.directory = os.path.abspath(directory)
        self.flags = list(flags)
        self.layout = (servers, targets)
        self.store = None
        self.mounts = []
        # Short, since a socket's path may have 107 bytes only.
        self.mount_directory = tempfile.mkdtemp(prefix="gate-")
        os.chmod(self.mount_directory, 0o755)
        self.address = None
        self.path = self.second = None

    def __enter__(self):
        try:
            self._start()
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        return self

    def _start(self):
        os.makedirs(self.directory)
        os.chmod(self.directory, 0o755)
        log = os.path.join(self.directory, "up.log")
        servers, targets = self.layout
        argv = [self.program, "up", "--servers", str(servers), "--targets", str(targets), "--port", "0", "--print-address"]
        self.store = Server([*argv, os.path.join(self.directory, "store")], log)
        self.store.wait_until("the store's address", lambda: self._find_address(log))
        first, second = (self.another() for _ in range(2))
        self.path = os.path.join(first.path, "gate")
        self.second = os.path.join(second.path, "gate")
        os.mkdir(self.path, 0o755)
        os.stat(self.second)

    def _find_address(self, log):
        with open(log) as source:
            found = source.readline().strip()
        self.address = found if found.startswith("thal://") else None
        return self.address is not None

    def another(self, *flags):
        """One more client: its `path` is a mount point, with the gate's directory in it."""
        name = f"m{len(self.mounts)}"
        log = os.path.join(self.directory, f"{name}.log")
        mount = Mount(self.program, self.address, os.path.join(self.mount_directory, name), log, [*self.flags, *flags])
        self.mounts.append(mount)
        return mount

    def give_up(self):
        """End the mounts at once; whoever waits for them gets an error."""
        for mount in self.mounts:
            mount.end()

    def leave(self):
        """Remove everything, unmount, and look at what the store still holds."""
        for mount in self.mounts[:2]:
            if not mount.is_there():
                raise Wrong(f"a mount ended on the way: {mount.server.last_words()}")
        removed = subprocess.run(["rm", "-rf", "--one-file-system", self.path], capture_output=True, text=True, timeout=REMOVE_S, check=False)
        if removed.returncode != 0:
            raise Wrong(f"rm -rf of what the gate made: {removed.stderr.strip()}")
        for mount in self.mounts:
            if mount.is_there():
                mount.unmount()
        deadline = time.monotonic() + START_S
        while self._datafiles():
            if time.monotonic() > deadline:
                left = self._datafiles()
                raise Wrong(f"{len(left)} datafiles are left of files that were removed, such as {left[0]}")
            time.sleep(0.1)

    def _datafiles(self):
        found = []
        for directory, _, names in os.walk(os.path.join(self.directory, "store")):
            if os.sep + "datafiles" in directory:
                found += [os.path.join(os.path.basename(directory), name) for name in names]
        return found

    def logs(self):
        """What servers and mounts printed, by name."""
        told = {}
        for name in sorted(os.listdir(self.directory)):
            if name.endswith(".log"):
                with open(os.path.join(self.directory, name), errors="replace") as source:
                    told[name] = source.read()
        return told

    def __exit__(self, *_):
        self.give_up()
        if self.store is not None:
            self.store.stop()
        shutil.rmtree(self.directory, ignore_errors=True)
        if not any(point.startswith(self.mount_directory + os.sep) for point in mount_points()):
            shutil.rmtree(self.mount_directory, ignore_errors=True)


def mount_points():
    """All of this namespace, from the kernel's list: nothing is asked of a file system that may not answer."""
    with open("/proc/self/mountinfo") as source:
        return {line.split(" ")[4].replace("\\040", " ") for line in source}


def file_system(path):
    """Type of the file system a path is on, for the result."""
    best = ("", "?")
    with open("/proc/self/mountinfo") as source:
        for line in source:
            before, _, after = line.partition(" - ")
            point = before.split(" ")[4]
            if (path == point or path.startswith(point.rstrip("/") + "/")) and len(point) >= len(best[0]):
                best = (point, after.split(" ")[0])
    return best[1]


__all__ = ["Directory", "Mounted", "Unavailable", "file_system", "mount_points"]
