"""The file system that a gate looks at: a store mounted twice, or any directory (the reference that says whether a case is wrong itself).

`path` is an empty directory, `second` the same directory as another client sees it (another mount of the store; on a reference file
system the same path). A mounted store belongs to one gate: servers, two mounts, and as many more as a case wants to kill. When
the gate is over everything in it is removed, the mounts are ended, and what the store still holds is looked at; that is a case of
its own.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time

from testbed import shell
from testbed.errors import Broken, NotRun
from testbed.store import Mount, Store

DATAFILES_GONE_S = 30.0
REMOVE_S = 120.0


class Directory:
    """A directory of any file system."""

    is_store = False

    def __init__(self, directory):
        self.path = self.second = os.path.join(os.path.abspath(directory), f"thalweg-gate-{os.getpid()}")

    def __enter__(self):
        os.makedirs(self.path)
        os.chmod(self.path, 0o755)
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)

    def give_up(self):
        """There is nothing that could be ended."""

    def another(self, *_flags):
        """Another client."""
        raise NotRun("there is no second client of a directory")


class MountedStore:
    """A store of its own under `directory`, mounted twice."""

    is_store = True

    def __init__(self, program, directory, flags=(), servers=2, targets=2):
        self.program = program
        self.directory = os.path.abspath(directory)
        self.flags = list(flags)
        self.datafiles = os.path.join(self.directory, "store")
        divided = ["--servers", servers, "--targets", targets]
        self.store = Store(program, [self.datafiles], os.path.join(self.directory, "up.log"), flags=divided)
        self.mounts = []
        # Short, since a socket's path may have 107 bytes only.
        self.mount_directory = tempfile.mkdtemp(prefix="gate-")
        os.chmod(self.mount_directory, 0o755)
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
        self.store.__enter__()
        first, second = (self.another() for _ in range(2))
        self.path = os.path.join(first.path, "gate")
        self.second = os.path.join(second.path, "gate")
        os.mkdir(self.path, 0o755)
        os.stat(self.second)

    def another(self, *flags):
        """One more client: its `path` is a mount point, with the gate's directory in it."""
        name = f"m{len(self.mounts)}"
        log = os.path.join(self.directory, f"{name}.log")
        mount = Mount(self.program, self.store.address, os.path.join(self.mount_directory, name), log, [*self.flags, *flags])
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
                raise Broken(f"a mount ended on the way: {mount.process.last_line()}")
        argv = ["rm", "-rf", "--one-file-system", self.path]
        removed = subprocess.run(argv, capture_output=True, text=True, timeout=REMOVE_S, check=False)
        if removed.returncode != 0:
            raise Broken(f"rm -rf of what the gate made: {removed.stderr.strip()}")
        for mount in self.mounts:
            if mount.is_there():
                mount.unmount()
        deadline = time.monotonic() + DATAFILES_GONE_S
        while left := self._datafiles():
            if time.monotonic() > deadline:
                raise Broken(f"{len(left)} datafiles are left of files that were removed, such as {left[0]}")
            time.sleep(0.1)

    def _datafiles(self):
        found = []
        for directory, _, names in os.walk(self.datafiles):
            if os.sep + "datafiles" in directory:
                found += [os.path.join(os.path.basename(directory), name) for name in names]
        return found

    def keep_logs(self, directory):
        """Copy what servers and mounts printed into a directory."""
        for name in os.listdir(self.directory):
            if name.endswith(".log"):
                shutil.copy(os.path.join(self.directory, name), directory)

    def __exit__(self, *_):
        self.give_up()
        if self.store.process is not None:
            self.store.__exit__()
        shutil.rmtree(self.directory, ignore_errors=True)
        if not any(point.startswith(self.mount_directory + os.sep) for point in shell.mount_points()):
            shutil.rmtree(self.mount_directory, ignore_errors=True)
