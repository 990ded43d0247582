"""Delay by the kernel's own emulator (netem), on kernels that have it."""

from contextlib import contextmanager

from lab.faults.base import Fault
from testbed.errors import NotRun
from testbed.links import netem, shape, unshape


class Netem(Fault):
    """Both ends of the veth pair delay what they send by `delay`."""

    def __init__(self, delay):
        self.delay = delay

    @contextmanager
    def applied(self, fixture):
        ends = fixture.network.hosts
        try:
            for host in ends:
                try:
                    shape(host, netem(self.delay))
                except NotRun as reason:
                    raise NotRun(f"this kernel has no netem ({reason})") from None
            yield
        finally:
            for host in ends:
                unshape(host)
