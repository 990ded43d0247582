"""A lock that somebody else has: another program holds it on a second mount of the same store."""

import os
from contextlib import contextmanager

from faults.base import Fault
from laboratory import shell
from laboratory.units import seconds
from servers.process import Server


class HeldLock(Fault):
    """Another program holds the lock of `file` (on the store's second mount) for `time` from when the run begins."""

    def __init__(self, file, time):
        self.file = file
        self.seconds = seconds(time)

    @contextmanager
    def applied(self, stage):
        log = os.path.join(stage.directory, "holder.log")
        if os.path.exists(log):
            os.unlink(log)
        path = os.path.join(stage.server.words()["other_mount"], self.file)
        holder = Server(["flock", path, "sh", "-c", f"echo held; sleep {self.seconds}"], log)
        try:
            holder.wait_until("the lock", lambda: "held" in (shell.read(log) or ""))
            yield
        finally:
            holder.stop()
