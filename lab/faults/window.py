"""Small socket buffers: the largest that TCP gives itself, set in the network namespace of one end."""

from contextlib import contextmanager

from lab.faults.base import Fault
from testbed.units import size_bytes

SETTINGS = {"receive": "net.ipv4.tcp_rmem", "send": "net.ipv4.tcp_wmem"}


class Window(Fault):
    """`at` (client, server) has a `buffer` (receive, send) of at most `size` bytes per connection."""

    def __init__(self, at, buffer, size):
        self.at = at
        self.setting = SETTINGS[buffer]
        self.size = size_bytes(size)

    @contextmanager
    def applied(self, fixture):
        host = fixture.host(self.at)
        before = host.sysctl(self.setting)
        host.sysctl(self.setting, f"4096 {self.size} {self.size}")
        try:
            yield
        finally:
            host.sysctl(self.setting, before.replace("\t", " "))
