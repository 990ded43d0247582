"""How much of its speed a program keeps with something done to it (`with`), to within one per cent, on a machine that is not left alone.

**What was found.** A loop of system calls on a virtual machine takes 26 ms, again and again, and then 35 or 52 for some runs on end, while others
use the host's processors and memory: times have a sharp floor and a tail that only adds. A round of parts alone, with, with, alone cancels what
changes evenly, but the medians of 28 such rounds still stray by 2.6 %, since half of the runs are disturbed and what disturbs them
comes in bursts. The fastest runs of many short ones do not stray: by 0.3 to 0.6 %.

**What is done.** A part is 2 s of short runs (laps), of 0.1 s or more, so that what is done ten times a second falls into each. Rounds take turns:
alone, with, with, alone, then with, alone, alone, with. Laps that stand at the same place in their parts are compared: the mean of the fastest tenth
of them, summed over all places. By place, because what is done to a program has hours of its own (the recorder counts reads and its own cost for a part of
each 2 s), and the fastest of all laps would only show the cheap ones. The interval is the percentile bootstrap (95 %), drawing whole rounds again, since laps of one
round are not independent. Rounds go on until it is narrow enough or the time is over: the width decides, never the value.

That the least disturbed times are the estimate of choice where noise only adds: Chen and Revels, "Robust benchmarking in noisy environments", 2016. Drawing at the level at
which runs are independent, and going on until the interval is narrow: Kalibera and Jones, "Rigorous benchmarking in reasonable time", 2013. Rejected: the
median of the rounds' ratios, and Hodges and Lehmann's estimator, which need ten times as many rounds here. The former stands beside the figure, so that a cost
which only the slow runs have would be seen.
"""

import heapq
import random
import time
from dataclasses import dataclass, field

ALONE, WITH = "alone", "with"
SEED = 20161129
FAST_SHARE = 0.1
MOST_PLACES = 10
SURE = 0.95


@dataclass
class Part:
    """Some seconds of laps: figures (`laps_s`, `cpu_s`) with a value for each, and numbers that stand for all of them."""

    laps: dict
    facts: dict = field(default_factory=dict)


@dataclass
class Plan:
    """How many rounds, for how long, until the interval is so wide at most on either side."""

    least: int = 8
    most: int = 400
    seconds: float = 150.0
    half_width: float = 0.01
    redraws: int = 400


@dataclass
class Estimate:
    """A figure with its 95 % interval."""

    value: float
    low: float
    high: float

    @property
    def half_width(self):
        """Of the interval."""
        return (self.high - self.low) / 2

    def summary(self):
        """As a case's file has it."""
        return {"median": self.value, "low": self.low, "high": self.high}


def order(number):
    """Which parts a round has: what comes first takes turns."""
    return (ALONE, WITH, WITH, ALONE) if number % 2 == 0 else (WITH, ALONE, ALONE, WITH)


def run(part, plan, note=lambda text: None, clock=time.monotonic):
    """Rounds of parts (`part(ALONE)`, `part(WITH)`) until the estimate of the laps' times is narrow, or the time is over."""
    begun, rounds = clock(), []
    while goes_on(rounds, clock() - begun, plan):
        made = {ALONE: [], WITH: []}
        for kind in order(len(rounds)):
            made[kind].append(part(kind))
        rounds.append(made)
    told = estimate(rounds, kept, plan.redraws)
    note(f"{len(rounds)} rounds in {clock() - begun:.0f} s: {told.value:.3f} ({told.low:.3f} – {told.high:.3f})")
    return rounds


def goes_on(rounds, spent_s, plan):
    """Whether there is to be another round."""
    if len(rounds) < plan.least:
        return True
    if len(rounds) >= plan.most or spent_s * (len(rounds) + 1) / len(rounds) > plan.seconds:
        return False
    return estimate(rounds, kept, plan.redraws).half_width > plan.half_width


def kept(rounds, figure="laps_s"):
    """The part of its speed that is kept: the undisturbed time alone over that with."""
    return undisturbed(rounds, ALONE, figure) / undisturbed(rounds, WITH, figure)


def undisturbed(rounds, kind, figure="laps_s"):
    """How long all laps of a part take together while nobody disturbs: the fastest tenth at each place."""
    parts = [part.laps[figure] for made in rounds for part in made[kind]]
    laps = min(len(part) for part in parts)
    step = -(-laps // MOST_PLACES)
    places = [range(at, min(at + step, laps)) for at in range(0, laps, step)]
    return sum(len(place) * fastest([part[at] for part in parts for at in place]) for place in places)


def fastest(values):
    """The mean of the fastest tenth."""
    count = max(1, round(len(values) * FAST_SHARE))
    return sum(heapq.nsmallest(count, values)) / count


def every_lap(rounds, figure="laps_s"):
    """The median of the rounds' ratios, each of all its laps: disturbed or not."""
    total = lambda made, kind: sum(sum(part.laps[figure]) for part in made[kind])  # noqa: E731
    return middle([total(made, ALONE) / total(made, WITH) for made in rounds])


def fact(name, kind=WITH):
    """An estimator of a number that stands for a part: the median of all."""
    return lambda rounds: middle([part.facts[name] for made in rounds for part in made[kind]])


def middle(values):
    """The median."""
    ordered, half = sorted(values), len(values) // 2
    return ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) / 2


def estimate(rounds, estimator, redraws=1000):
    """The estimator's value, and its interval by drawing the rounds again. Equal rounds give equal intervals."""
    random_numbers = random.Random(SEED)
    drawn = sorted(estimator(random_numbers.choices(rounds, k=len(rounds))) for _ in range(redraws))
    value, tail = estimator(rounds), int(redraws * (1 - SURE) / 2)
    return Estimate(value, min(drawn[tail], value), max(drawn[-1 - tail], value))
