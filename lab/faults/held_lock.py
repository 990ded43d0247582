"""A lock that somebody else has: it is held on a second mount of the same store, by the lab itself."""

import fcntl
import os
from contextlib import contextmanager

from lab.faults.base import Fault
from testbed import shell
from testbed.units import seconds


class HeldLock(Fault):
    """The lock of `file` (on the store's second mount) is held until `time` after the client's `program` has begun."""

    POLL_S = 0.001

    def __init__(self, file, program, time):
        self.file = file
        self.program = program
        self.seconds = seconds(time)
        self.descriptor = None

    @contextmanager
    def applied(self, fixture):
        path = os.path.join(fixture.server.words()["other_mount"], self.file)
        self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(self.descriptor)

    def during(self, _fixture, run):
        while not any((shell.read(f"/proc/{pid}/comm") or "").strip() == self.program for pid in run.client_pids()):
            if run.over.wait(self.POLL_S):
                return
        run.over.wait(self.seconds)
        fcntl.flock(self.descriptor, fcntl.LOCK_UN)
