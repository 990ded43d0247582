"""Running what is compared in turn, round after round.

A round runs every subject once, in an order that is shuffled anew for each round (seeded): what one subject leaves behind
(dirty pages, a warm allocator, a clock that was raised) meets every other one equally often. Rounds go on until there are
enough and the intervals of the ratios are narrow, or the time of the case is used up. When to stop depends on the width of the
intervals and never on where they lie.
"""

import os
import random
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field

from bench.harness import statistics
from bench.harness.command import timed
from testbed import machine
from testbed.errors import Broken


def _nothing(_run):
    return None


@dataclass
class Subject:
    """One way of doing the work of a case.

    `command` gives the argv of run number N; `before` and `after` run untimed around it: `after` must raise `Broken` if the
    copy is not whole, and removes it. `own` turns the command's stdout into what it said about itself, kept beside our time.
    """

    name: str
    label: str
    command: Callable[[int], list]
    before: Callable[[int], None] = _nothing
    after: Callable[[int], None] = _nothing
    own: Callable[[str], dict] = _nothing


@dataclass
class Plan:
    """How many rounds, how long."""

    least: int = 10
    most: int = 20
    seconds: float = 60.0
    narrow: float = 0.05


@dataclass
class Outcome:
    """Every raw time of a case, by round."""

    rounds: list = field(default_factory=list)
    cpu: dict = None

    def seconds(self, subject):
        """The wall times of one subject, in the order of the rounds."""
        return [done["samples"][subject]["wall_s"] for done in self.rounds]

    def ratios(self, of, to):
        """How many times faster `of` was than `to`, round by round."""
        return statistics.ratios(self.seconds(of), self.seconds(to))


def run(subjects, plan, reference, note=lambda text: None, before_round=lambda: None):
    """Run the subjects in rounds by the plan; the interval of every ratio `reference` / other decides when it is enough.

    `before_round` is not timed.
    """
    before_round()
    for subject in subjects:
        one(subject, 0)
    outcome = Outcome()
    order = random.Random(statistics.SEED)
    meter = machine.CpuMeter()
    started = time.monotonic()
    while not _enough(outcome, subjects, plan, reference, time.monotonic() - started):
        number = len(outcome.rounds) + 1
        turn = order.sample(subjects, len(subjects))
        before_round()
        samples = {subject.name: one(subject, number) for subject in turn}
        outcome.rounds.append({"order": [subject.name for subject in turn], "samples": samples})
        note(f"round {number}: " + "  ".join(f"{s.name} {samples[s.name]['wall_s']:.3f}" for s in subjects))
    outcome.cpu = meter.read()
    return outcome


def one(subject, number):
    """One run of one subject, with its untimed preparation and its check."""
    subject.before(number)
    os.sync()
    try:
        sample = timed([str(word) for word in subject.command(number)])
    except Broken:
        subject_cleanup(subject, number)
        raise
    subject.after(number)
    told = asdict(sample)
    text = told.pop("stdout")
    own = subject.own(text)
    if own is not None:
        told["own"] = own
    return told


def subject_cleanup(subject, number):
    """Remove what a failed run left; its own complaint that the copy is not whole adds nothing."""
    try:
        subject.after(number)
    except (Broken, OSError):
        pass


def _enough(outcome, subjects, plan, reference, seconds):
    done = len(outcome.rounds)
    if done < plan.least:
        return False
    if done >= plan.most or seconds >= plan.seconds:
        return True
    others = [subject.name for subject in subjects if subject.name != reference]
    for other in others:
        low, high = statistics.interval(outcome.ratios(reference, other))
        if (high - low) / statistics.median(outcome.ratios(reference, other)) > plan.narrow:
            return False
    return True
