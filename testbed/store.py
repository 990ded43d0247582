"""A Thalweg store and its mounts, driven through the built command alone."""

import json
import os
import re
import signal
import subprocess

from testbed import shell
from testbed.errors import Broken, NotRun
from testbed.hosts import LOOPBACK
from testbed.processes import Process

ADDRESS = re.compile(r"thal://[^\s\"'/]+")
UMOUNT_TIMEOUT_S = 60.0
# How long a mount's process may still be there when `thalweg umount` has returned.
UMOUNTED_S = 5.0


class Store:
    """`thalweg up`: all servers in one process, over one directory (then `flags` may divide it) or one for each server."""

    def __init__(self, program, directories, log, host=LOOPBACK, flags=()):
        self.program = program
        self.directories = directories
        self.log = log
        self.host = host
        self.flags = [str(flag) for flag in flags]
        self.address = None
        self.process = None

    def __enter__(self):
        for directory in self.directories:
            os.makedirs(directory, exist_ok=True)
        if self.host.user:
            self.host.user.give(*self.directories)
        beyond = ["--host", self.host.address, "--beyond-loopback"] if self.host.namespace else []
        argv = [self.program, "up", "--print-address", "--port", "0", *self.flags, *beyond, *self.directories]
        self.process = Process(argv, self.log, self.host)
        try:
            self.process.wait_until("the store's address", self._has_address, Broken)
        except BaseException:
            self.process.stop()
            raise
        return self

    def _has_address(self):
        found = ADDRESS.search(self.process.output())
        self.address = found.group(0) if found else None
        return found is not None

    def __exit__(self, *_):
        self.process.stop()

    def credential(self, user=None):
        """The file with the store's own credential: what clients need that are another user, or have another state directory. For another
        user, a copy that is theirs."""
        own = os.path.join(self.directories[0], "store.credential")
        if user is None:
            return own
        copy = f"{self.log}-credential-of-{user}"
        shell.run("install", "-m", "600", "-o", str(user), own, copy)
        return copy

    def url(self, name):
        """A file's name for the command line."""
        return f"{self.address}/{name}"

    def run(self, *arguments, check=True):
        """An untimed command, started on the store's host; its stdout. `Broken` when it fails."""
        return shell.run(*self.host.inside(self.host.as_owner([self.program, *arguments])), check=check, failure=Broken)

    def remove(self, name):
        """Remove a file or a tree."""
        self.run("rm", "-r", self.url(name))

    def size_bytes(self, name):
        """What the store says a file's size is."""
        return json.loads(self.run("stat", "--json", self.url(name)))["size_bytes"]


class Mount:
    """`thalweg mount`, in the foreground of a process of ours; entered, or made, it is there. `client` is on whose network it is.

    It is in nobody's mount namespace but everybody's: whoever is started on the client's host later finds it.
    """

    def __init__(self, program, address, path, log, flags=(), client=LOOPBACK):
        if not os.path.exists("/dev/fuse"):
            raise NotRun("this machine has no /dev/fuse")
        self.program = program
        self.path = path
        os.makedirs(path, exist_ok=True)
        if client.user:
            client.user.give(path)
        self.client = client
        self.process = Process(client.raw(client.as_owner([program, "mount", "--foreground", *flags, address, path])), log)
        try:
            self.process.wait_until(f"the mount at {path}", self.is_mounted, Broken)
        except BaseException:
            self.end()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def is_mounted(self):
        """Whether its mount point is one."""
        return self.path in shell.mount_points()

    def is_there(self):
        """Whether the process lives and the mount point is one."""
        return self.process.is_running and self.is_mounted()

    def unmount(self):
        """End it in order; `Broken` if that is not possible."""
        try:
            done = subprocess.run(self.client.as_owner([self.program, "umount", self.path]), capture_output=True, text=True, timeout=UMOUNT_TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired:
            raise Broken(f"thalweg umount was still busy after {UMOUNT_TIMEOUT_S:.0f} s") from None
        if done.returncode != 0:
            raise Broken(f"thalweg umount: exit code {done.returncode}: {shell.last_line(done.stderr)}")
        if self.is_mounted():
            raise Broken("thalweg umount returned, and the mount is still there")
        try:
            self.process.process.wait(UMOUNTED_S)
        except subprocess.TimeoutExpired:
            raise Broken("thalweg umount returned, and the mount's process is still there") from None

    def kill(self):
        """The client dies, from one moment to the next."""
        self.process.signal(signal.SIGKILL)
        self.process.process.wait()
        self.end()

    def end(self):
        """Whatever state it is in: afterwards there is no process and no mount."""
        if self.process.is_running:
            self.process.stop()
        for words in (["umount", "-l"], ["fusermount3", "-u", "-z"]):
            if self.is_mounted():
                subprocess.run([*words, self.path], capture_output=True, check=False)
