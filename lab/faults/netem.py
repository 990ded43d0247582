"""Delay by the kernel's own emulator (netem), on kernels that have it."""

from contextlib import contextmanager

from faults.base import Fault
from faults.link import DEVICE
from laboratory import shell
from laboratory.errors import NotRun


class Netem(Fault):
    """Both ends of the veth pair delay what they send by `delay`."""

    def __init__(self, delay):
        self.delay = delay

    @contextmanager
    def applied(self, stage):
        try:
            for host in stage.network.hosts:
                try:
                    shell.run(*host.raw(["tc", "qdisc", "replace", "dev", DEVICE, "root", "netem", "delay", self.delay, "limit", "20000"]))
                except NotRun as reason:
                    raise NotRun(f"this kernel has no netem ({reason})") from None
            yield
        finally:
            for host in stage.network.hosts:
                shell.run(*host.raw(["tc", "qdisc", "del", "dev", DEVICE, "root"]), check=False)
