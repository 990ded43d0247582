"""Dirty throttling: so little unwritten data is allowed that a writer is held to the disk's own rate."""

from lab.faults.base import Fault
from testbed.units import size_bytes


class DirtyLimit(Fault):
    """At most `limit` bytes of `disk` may be dirty."""

    def __init__(self, disk, limit):
        self.disk = disk
        self.limit = size_bytes(limit)

    def applied(self, fixture):
        return fixture.disk(self.disk).unwritten_at_most(self.limit)
