"""Several gates at a time, each in a process of its own.

All of them are forked by the calling thread while it starts nothing else. A pool that forks in a thread of its own does so while this
one has a program's output in a pipe: the new process inherits the pipe's other end, and the output then never ends.
"""

import multiprocessing
import multiprocessing.connection
import time

from gates.harness.case import Case

# What one gate may take; the longest takes two minutes on a machine of its own, and some run for hours in the long form.
SHORT_LIMIT_S = 400.0


def side_by_side(gates, jobs, work, limit_s=None):
    """Run `work(gate)`, which returns cases and facts, for all gates, `jobs` at a time; yields (gate, cases, facts, seconds) as each ends."""
    waiting, running = list(gates), {}
    try:
        while waiting or running:
            while waiting and len(running) < max(1, jobs):
                one = _Running(waiting.pop(0), work)
                running[one.receiver] = one
            for receiver in multiprocessing.connection.wait(running, timeout=_left_s(running.values(), limit_s)):
                yield running.pop(receiver).result()
            for receiver, one in list(running.items()):
                if limit_s is not None and one.seconds() > limit_s:
                    del running[receiver]
                    yield one.given_up(f"not done after {limit_s:.0f} s")
    finally:
        for one in running.values():
            one.process.kill()


def _left_s(running, limit_s):
    return None if limit_s is None else max(0.0, limit_s - max(one.seconds() for one in running))


class _Running:
    """A gate that runs in a process of its own."""

    def __init__(self, gate, work):
        self.gate = gate
        self.begun = time.monotonic()
        context = multiprocessing.get_context("fork")
        self.receiver, sender = context.Pipe(duplex=False)
        self.process = context.Process(target=_send, args=(sender, work, gate))
        self.process.start()
        sender.close()

    def seconds(self):
        """Time since its start."""
        return time.monotonic() - self.begun

    def result(self):
        """What it sent; a failed case if it ended without."""
        try:
            cases, facts = self.receiver.recv()
        except EOFError:
            self.process.join()
            return self.given_up(f"its process ended with code {self.process.exitcode}")
        self.process.join()
        return self.gate, cases, facts, self.seconds()

    def given_up(self, why):
        """End it; a failed case."""
        self.process.kill()
        self.process.join()
        return self.gate, [Case("the whole gate", "failed", why)], {}, self.seconds()


def _send(sender, work, gate):
    sender.send(work(gate))
    sender.close()
