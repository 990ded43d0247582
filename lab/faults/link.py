"""A slow link: a token bucket (tbf) on both ends of the veth pair, with a queue of a stated time."""

from contextlib import contextmanager

from lab.faults.base import Fault
from testbed.links import shape, token_bucket, unshape
from testbed.units import bits_per_s, seconds


class LinkRate(Fault):
    """Both directions carry at most `rate`, and hold what waits for `queue` at the most."""

    def __init__(self, rate, queue="20ms"):
        self.bits = bits_per_s(rate)
        self.queue_s = seconds(queue)

    @contextmanager
    def applied(self, fixture):
        ends = fixture.network.hosts
        try:
            for host in ends:
                shape(host, token_bucket(self.bits, self.queue_s))
            yield
        finally:
            for host in ends:
                unshape(host)
