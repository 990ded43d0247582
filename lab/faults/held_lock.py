"""A lock that somebody else has: it is held on a second mount of the same store, by a process of the mount's user."""

import os
import subprocess
from contextlib import contextmanager

from lab.faults.base import Fault
from testbed import shell
from testbed.errors import Broken
from testbed.units import seconds

# Holds the lock until its input ends. A mount of FUSE is its user's alone: not even root may open files there.
HOLDER = """import fcntl, os, sys
descriptor = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o644)
fcntl.flock(descriptor, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


class HeldLock(Fault):
    """The lock of `file` (on the store's second mount) is held until `time` after the client's `program` has begun."""

    POLL_S = 0.001

    def __init__(self, file, program, time):
        self.file = file
        self.program = program
        self.seconds = seconds(time)
        self.holder = None

    @contextmanager
    def applied(self, fixture):
        path = os.path.join(fixture.server.words()["other_mount"], self.file)
        argv = ["/usr/bin/python3", "-S", "-c", HOLDER, path]
        argv = fixture.user.argv(argv) if fixture.user else argv
        self.holder = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            if self.holder.stdout.readline().strip() != "held":
                raise Broken(f"{path}: the lock was not had: python3 ended with {self.holder.wait()}")
            yield
        finally:
            self._let_go()
            self.holder.wait()
            self.holder.stdout.close()

    def during(self, _fixture, run):
        while not any((shell.read(f"/proc/{pid}/comm") or "").strip() == self.program for pid in run.client_pids()):
            if run.over.wait(self.POLL_S):
                return
        run.over.wait(self.seconds)
        self._let_go()

    def _let_go(self):
        if not self.holder.stdin.closed:
            self.holder.stdin.close()
