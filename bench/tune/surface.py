"""A surface: what a sweep measured at every point of a grid, to be asked again in no time; and a run of a tuner over it, with its budget."""

import json
import os
import random
import statistics

from testbed.paths import REPOSITORY

# A tuner may run so many points, or this part of the grid if that is more.
LEAST_RUNS = 12
PART_OF_GRID = 0.2
# Digits of a share in what is kept.
DIGITS = 4


class Surface:
    """Made of a sweep's document (`thalweg.sweep/1`). `rates` has the raw rates of each point's runs: bytes a second, or runs a second."""

    def __init__(self, document):
        self.names = [one["name"] for one in document["parameters"]]
        self.values = [[value["label"] for value in one["values"]] for one in document["parameters"]]
        self.points = {tuple(point["values"]): point for point in document["points"] if point["state"] != "skipped"}
        self.rates = {values: [run.get("bytes", 1) / run["wall_s"] for run in point["runs"]] for values, point in self.points.items()}
        self.medians = {values: statistics.median(rates) if rates else 0.0 for values, rates in self.rates.items()}
        self.best = max(self.medians, key=self.medians.get)

    @property
    def sizes(self):
        """How many values each parameter has."""
        return [len(values) for values in self.values]

    @property
    def budget(self):
        """How many runs a tuner has."""
        return max(LEAST_RUNS, int(PART_OF_GRID * len(self.points)))

    def at(self, place):
        """The point at these places of the parameters' values."""
        return tuple(values[at] for values, at in zip(self.values, place, strict=True))

    def place(self, point):
        """The places of a point's values."""
        return tuple(values.index(value) for values, value in zip(self.values, point, strict=True))

    def point(self, named):
        """The point with these values by name."""
        return tuple(named[name] for name in self.names)

    def regret(self, point):
        """How much slower it is than the best point, by the medians: 0 is the best."""
        return 1 - self.medians[point] / self.medians[self.best]

    def spread(self, point):
        """How far apart the runs of a point are: (highest - lowest rate) / median."""
        rates = self.rates[point]
        return (max(rates) - min(rates)) / self.medians[point] if rates else 0.0

    def noise(self):
        """The middle of the points' standard deviations, as a part of the median."""
        return statistics.median(statistics.stdev(rates) / self.medians[values] if len(rates) > 1 else 0.0 for values, rates in self.rates.items())


class Runs:
    """The runs of a tuner over a surface: each is one of the point's raw rates, drawn with the seed; a point that failed has 0."""

    def __init__(self, surface, seed, budget=None):
        self.surface = surface
        self.left = surface.budget if budget is None else budget
        self.random = random.Random(seed)
        self.seen = []

    def run(self, place):
        """Run a point; its rate. No run is left after as many as the budget has."""
        if self.left <= 0:
            raise ValueError("the budget is spent")
        self.left -= 1
        point = self.surface.at(place)
        rates = self.surface.rates[point]
        self.seen.append((point, self.random.choice(rates) if rates else 0.0))
        return self.seen[-1][1]

    def places(self):
        """The places that were run."""
        return {self.surface.place(point) for point, _ in self.seen}


def leader(seen):
    """The point with the best mean of what was seen of it."""
    rates = {}
    for point, rate in seen:
        rates.setdefault(point, []).append(rate)
    return max(rates, key=lambda point: statistics.fmean(rates[point]))


def load(path):
    """The surface in a file."""
    with open(path, encoding="utf-8") as source:
        return Surface(json.load(source))


def short(document):
    """The document with as many digits as are read, for git; nothing else is left out."""
    shares = [point["explanation"] for point in document["points"] if point.get("explanation")]
    for one in shares:
        one["shares"] = [[cause, round(share, DIGITS)] for cause, share in one["shares"]]
    return document


def write(document, path):
    """Write a document in one line for each point, so that two can be compared."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    rest = {key: value for key, value in document.items() if key != "points"}
    head = json.dumps(rest, ensure_ascii=False, separators=(",", ":"))[:-1]
    points = ",\n".join(json.dumps(point, ensure_ascii=False, separators=(",", ":")) for point in document["points"])
    with open(path, "w", encoding="utf-8") as out:
        # Paths are relative to the checkout.
        out.write(f'{head},"points":[\n{points}\n]}}\n'.replace(REPOSITORY + os.sep, ""))
