"""A slow disk: one of the lab's own, given a rate and a latency."""

from contextlib import contextmanager

from lab.faults.base import Fault
from testbed.units import seconds, size_bytes


class SlowDisk(Fault):
    """`disk` (source, sink, server) gives `rate` bytes per second to `operation` (read, write, both); `latency` for each request."""

    def __init__(self, disk, operation, rate="0", latency="0s"):
        self.disk = disk
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
