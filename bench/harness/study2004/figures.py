"""Figures of a shard's line, with 95 % intervals by drawing its runs again.

Rates are medians; ratios of rates are taken repetition by repetition. Processor time of a server is counted in hundredths of a second, which
is much of one run: so it is the sum over all runs divided by the bytes of all runs, and what one run is counted too much the next is too little.
"""

import random
from dataclasses import dataclass
from statistics import median

DRAWN = 2000
REPEAT, WALL_S, CLIENT_CPU_S, SERVER_CPU_S, BYTES = range(5)


@dataclass(frozen=True)
class Figure:
    """A figure and its interval."""

    middle: float
    low: float
    high: float

    def covers(self, value):
        """Whether it may be this value."""
        return self.low <= value <= self.high


class Points:
    """The points of a line, by the values of their parameters."""

    def __init__(self, line):
        self.line = line
        self.names = [one["name"] for one in line["parameters"]]
        self.values = {one["name"]: one["values"] for one in line["parameters"]}
        self.by_values = {tuple(point["values"]): point for point in line["points"]}

    def point(self, **values):
        """The point with these values."""
        return self.by_values[tuple(values[name] for name in self.names)]

    def runs(self, **values):
        """Its runs; none where it failed."""
        point = self.point(**values)
        return point["runs"] if point["state"] == "done" else []

    def cause(self, **values):
        """What its recorded run says, as `cause 52 %`; nothing where none was made."""
        said = self.point(**values).get("explanation")
        return ", ".join(f"{cause} {share:.0%}" for cause, share in said["shares"][:2]) if said else ""


def _drawn(figure, *lists):
    """The figure of these lists, and its interval over lists drawn again; None where one is empty."""
    if not all(lists):
        return None
    dice = random.Random(2004)
    drawn = sorted(figure(*([dice.choice(one) for _ in one] for one in lists)) for _ in range(DRAWN))
    return Figure(figure(*lists), drawn[int(0.025 * DRAWN)], drawn[int(0.975 * DRAWN) - 1])


def rate(runs):
    """Bytes per second."""
    return _drawn(median, [run[BYTES] / run[WALL_S] for run in runs])


def times_as_fast(of, than):
    """How many times as fast, within each repetition."""
    theirs = {run[REPEAT]: run[BYTES] / run[WALL_S] for run in than}
    return _drawn(median, [run[BYTES] / run[WALL_S] / theirs[run[REPEAT]] for run in of if run[REPEAT] in theirs])


def _cost(runs, column=SERVER_CPU_S):
    return sum(run[column] for run in runs) / sum(run[BYTES] for run in runs) * 1e9


def _load(runs):
    return sum(run[SERVER_CPU_S] for run in runs) / sum(run[WALL_S] for run in runs)


def server_cost(runs):
    """Processor time of the server, nanoseconds a byte."""
    return _drawn(_cost, _known(runs))


def cost_ratio(of, than):
    """How many times as much processor time a byte costs the server."""
    return _drawn(lambda a, b: _cost(a) / max(_cost(b), 1e-9), _known(of), _known(than))


def cost_more(of, than):
    """How much more a byte costs the server, nanoseconds."""
    return _drawn(lambda a, b: _cost(a) - _cost(b), _known(of), _known(than))


def difference_of_more(of, than, other, other_than):
    """By how much one thing adds more to a byte's cost than another does, nanoseconds."""
    lists = [_known(one) for one in (of, than, other, other_than)]
    return _drawn(lambda a, b, c, d: (_cost(a) - _cost(b)) - (_cost(c) - _cost(d)), *lists)


def server_load(runs):
    """How many processors the server keeps busy."""
    return _drawn(_load, _known(runs))


def load_ratio(of, than):
    """How many times as busy it keeps them."""
    return _drawn(lambda a, b: _load(a) / max(_load(b), 1e-9), _known(of), _known(than))


def _known(runs):
    return [run for run in runs if run[SERVER_CPU_S] is not None]
