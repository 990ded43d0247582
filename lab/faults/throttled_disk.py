"""A disk that the kernel holds back for a control group (blkio.throttle, or io.max), as containers' disks are."""

from contextlib import ExitStack, contextmanager

from lab.faults.base import Fault
from testbed.units import size_bytes


class ThrottledDisk(Fault):
    """`disk` gives `rate` bytes per second to `operation` (read, write, both)."""

    def __init__(self, disk, operation, rate):
        self.disk = disk
        self.operations = ("read", "write") if operation == "both" else (operation,)
        self.rate = size_bytes(rate)

    @contextmanager
    def applied(self, fixture):
        disk = fixture.disk(self.disk)
        with ExitStack() as undo:
            for operation in self.operations:
                undo.callback(disk.throttle, operation, None)
                disk.throttle(operation, self.rate)
            yield
