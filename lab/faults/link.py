"""A slow link: a token bucket (tbf) on both ends of the veth pair, with a queue of a stated time."""

from contextlib import contextmanager

from faults.base import Fault
from laboratory import shell
from laboratory.units import bits_per_s, seconds

DEVICE = "eth0"


class LinkRate(Fault):
    """Both directions carry at most `rate`, and hold what waits for `queue` at the most."""

    def __init__(self, rate, queue="20ms"):
        self.bits = bits_per_s(rate)
        self.queue_s = seconds(queue)

    @contextmanager
    def applied(self, stage):
        # A bucket of 2 ms: small beside what is measured, and never below one large packet.
        burst = max(int(self.bits / 8 * 0.002), 70_000)
        limit = burst + int(self.bits / 8 * self.queue_s)
        shape = ["tbf", "rate", f"{int(self.bits)}bit", "burst", str(burst), "limit", str(limit)]
        ends = stage.network.hosts
        try:
            for host in ends:
                shell.run(*host.raw(["tc", "qdisc", "replace", "dev", DEVICE, "root", *shape]))
            yield
        finally:
            for host in ends:
                shell.run(*host.raw(["tc", "qdisc", "del", "dev", DEVICE, "root"]), check=False)
