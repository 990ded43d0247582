"""Few processors: a control group's quota (cpu.cfs_quota_us, or cpu.max)."""

from contextlib import contextmanager

from lab.faults.base import Fault
from testbed.units import seconds


class CpuQuota(Fault):
    """`who` (client, server) gets `processors` (0.3 is 30 % of one) in each `period`."""

    def __init__(self, who, processors, period="20ms"):
        self.who = who
        self.processors = processors
        self.period_us = int(seconds(period) * 1e6)

    @contextmanager
    def applied(self, fixture):
        group = fixture.group(self.who)
        group.set_quota(self.processors, self.period_us)
        try:
            yield
        finally:
            group.set_quota(None, self.period_us)
