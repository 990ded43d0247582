"""Somebody stands still: SIGSTOP to all of its processes for a while, once so much of the copy is done."""

import os
import signal
import time

from lab.faults.base import Fault
from testbed.units import seconds


class Stop(Fault):
    """`who` (client, server) is stopped for `time` when the sink holds `after` (a share of the size)."""

    POLL_S = 0.001

    def __init__(self, who, time, after=0.3, times=1):
        self.who = who
        self.seconds = seconds(time)
        self.after = after
        self.times = times

    def during(self, fixture, run):
        for number in range(1, self.times + 1):
            wanted = self.after * number / self.times * fixture.scenario.size
            while run.progress_bytes() < wanted:
                if run.over.wait(self.POLL_S):
                    return
            pids = fixture.server_pids() if self.who == "server" else run.client_pids()
            self._stop(pids)
            run.notes.append(f"stopped {len(pids)} for {self.seconds} s")

    def _stop(self, pids):
        try:
            for pid in pids:
                _signal(pid, signal.SIGSTOP)
            time.sleep(self.seconds)
        finally:
            for pid in pids:
                _signal(pid, signal.SIGCONT)


def _signal(pid, number):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass
