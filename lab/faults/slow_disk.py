"""A slow disk: one of the lab's own, given a rate and a latency."""

from contextlib import contextmanager

from lab.faults.base import Fault
from testbed.units import seconds, size_bytes


class SlowDisk(Fault):
    """`disk` (source, sink, server) gives `rate` bytes per second to `operation` (read, write, both); `latency` for each request. `lasts`: only
    for so long after the command was started."""

    def __init__(self, disk, operation, rate="0", latency="0s", lasts=None):
        self.disk = disk
        self.lasts_s = seconds(lasts) if lasts else None
        operations = ("read", "write") if operation == "both" else (operation,)
        self.speed = {**dict.fromkeys(operations, size_bytes(rate)), "latency": int(seconds(latency) * 1e9)}

    @contextmanager
    def applied(self, fixture):
        disk = fixture.disk(self.disk)
        try:
            disk.slow(**self.speed)
            yield
        finally:
            disk.slow(**dict.fromkeys(self.speed, 0))

    def during(self, fixture, run):
        if self.lasts_s and not run.over.wait(self.lasts_s):
            fixture.disk(self.disk).slow(**dict.fromkeys(self.speed, 0))
            run.notes.append(f"as fast as memory from {self.lasts_s} s on")
