"""Dirty throttling: so little unwritten data is allowed that a writer is held to the disk's own rate.

Where the kernel has it, the limit is set for our disk alone (max_bytes with strict_limit of its backing device); else for the
machine (vm.dirty_bytes), and restored.
"""

import os
from contextlib import contextmanager

from lab.faults.base import Fault
from testbed import shell
from testbed.units import size_bytes


class DirtyLimit(Fault):
    """At most `limit` bytes of `disk` may be dirty."""

    def __init__(self, disk, limit):
        self.disk = disk
        self.limit = size_bytes(limit)

    @contextmanager
    def applied(self, fixture):
        device = f"/sys/class/bdi/{fixture.disk(self.disk).number}"
        if os.path.exists(f"{device}/strict_limit"):
            settings = [(f"{device}/strict_limit", 1), (f"{device}/max_bytes", self.limit)]
            restored = [(f"{device}/max_ratio", 100), (f"{device}/strict_limit", 0)]
        else:
            settings = [("/proc/sys/vm/dirty_background_bytes", self.limit // 2), ("/proc/sys/vm/dirty_bytes", self.limit)]
            names = ("dirty_background_ratio", "dirty_ratio", "dirty_background_bytes", "dirty_bytes")
            kept = [(f"/proc/sys/vm/{name}", shell.read(f"/proc/sys/vm/{name}")) for name in names]
            restored = [(path, value) for path, value in kept if value != "0"]
        try:
            for path, value in settings:
                shell.write(path, value)
            yield
        finally:
            for path, value in restored:
                shell.write(path, value)
