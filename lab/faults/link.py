"""A slow link: a token bucket (tbf) on both ends of the veth pair, with a queue of a stated time."""

from contextlib import contextmanager

from faults.base import Fault
from laboratory import shell
from laboratory.units import bits_per_s, seconds

DEVICE = "eth0"


def token_bucket(bits, queue_s):
    """The words of `tc` for a link of so many bits per second that holds what waits for so long at the most."""
    # A bucket of 2 ms: small beside what is measured, and never below one large packet.
    burst = max(int(bits / 8 * 0.002), 70_000)
    limit = burst + int(bits / 8 * queue_s)
    return ["tbf", "rate", f"{int(bits)}bit", "burst", str(burst), "limit", str(limit)]


class LinkRate(Fault):
    """Both directions carry at most `rate`, and hold what waits for `queue` at the most."""

    def __init__(self, rate, queue="20ms"):
        self.bits = bits_per_s(rate)
        self.queue_s = seconds(queue)

    @contextmanager
    def applied(self, stage):
        shape = token_bucket(self.bits, self.queue_s)
        ends = stage.network.hosts
        try:
            for host in ends:
                shell.run(*host.raw(["tc", "qdisc", "replace", "dev", DEVICE, "root", *shape]))
            yield
        finally:
            for host in ends:
                shell.run(*host.raw(["tc", "qdisc", "del", "dev", DEVICE, "root"]), check=False)
