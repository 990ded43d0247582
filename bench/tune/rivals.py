"""Ways to find a good point without knowing why a point is slow: what a tuner that knows has to beat.

All begin at the same point, have the same runs, and return the point with the best mean of what they saw. A step is one place along one
parameter's values, which lie on a log2 scale. Those that come to rest early begin again at a random point, as long as there are runs.
"""

import json
import os
import random
import subprocess

from bench.tune.surface import leader
from testbed.errors import NotRun
from testbed.paths import TARGET

OPTUNA = "optuna==5.0.0"
ENVIRONMENT = os.path.join(TARGET, "optuna-venv")
PYTHON = os.path.join(ENVIRONMENT, "bin", "python")
SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tpe.py")


def random_search(runs, start, seed):
    """Points in a random order, none twice."""
    draw = random.Random(f"random {seed}")
    runs.run(start)
    others = [place for place in places(runs.surface) if place != start]
    draw.shuffle(others)
    for place in others[: runs.left]:
        runs.run(place)


def hill_climbing(runs, start, seed):
    """From the best place to a random one beside it, and there if that is better; from a top without a better neighbour somewhere else."""
    draw = random.Random(f"hill {seed}")
    place = start
    while place is not None and runs.left:
        best = runs.run(place)
        while runs.left:
            beside = [one for one in neighbours(place, runs.surface.sizes) if one not in runs.places()]
            if not beside:
                break
            other = draw.choice(beside)
            rate = runs.run(other)
            if rate > best:
                place, best = other, rate
        place = _somewhere_else(runs, draw)


def coordinate_descent(runs, start, seed):
    """One parameter after the other: up while that is better, else down; until no parameter gives more."""
    draw = random.Random(f"coordinates {seed}")
    place = start
    while place is not None and runs.left:
        _descend(runs, place)
        place = _somewhere_else(runs, draw)


def _descend(runs, place):
    best, moved = runs.run(place), True
    while moved:
        moved = False
        for axis in range(len(place)):
            for direction in (1, -1):
                stepped = False
                while (other := step(place, axis, direction, runs.surface.sizes)) and other not in runs.places():
                    if not runs.left:
                        return
                    rate = runs.run(other)
                    if rate <= best:
                        break
                    place, best, stepped, moved = other, rate, True, True
                if stepped:
                    break


class Tpe:
    """Optuna's tree-structured Parzen estimator, in a process of its own: nothing beyond the standard library is imported here."""

    def __init__(self):
        install_optuna()
        self.process = subprocess.Popen([PYTHON, SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.communicate()

    def __call__(self, runs, start, seed):
        """A search of its own."""
        place = self._ask({"sizes": runs.surface.sizes, "start": start, "seed": seed})
        while True:
            rate = runs.run(tuple(place))
            if not runs.left:
                return
            place = self._ask({"rate": rate})

    def _ask(self, words):
        print(json.dumps(words), file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())


def install_optuna():
    """Have Optuna in an environment under the build's folder; `NotRun` where it cannot be had."""
    if os.path.exists(PYTHON) and subprocess.run([PYTHON, "-c", "import optuna"], capture_output=True, check=False).returncode == 0:
        return
    for command in (["python3", "-m", "venv", ENVIRONMENT], [PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", OPTUNA]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise NotRun(f"{OPTUNA} cannot be installed: {(done.stderr.strip().splitlines() or ['it failed'])[-1]}")


def places(surface):
    """Every place of a grid."""
    return [surface.place(point) for point in surface.points]


def step(place, axis, direction, sizes):
    """The place one step along a parameter; None at its end."""
    at = place[axis] + direction
    return (*place[:axis], at, *place[axis + 1 :]) if 0 <= at < sizes[axis] else None


def neighbours(place, sizes):
    """The places one step away along one parameter."""
    return [other for axis in range(len(place)) for direction in (1, -1) if (other := step(place, axis, direction, sizes))]


def _somewhere_else(runs, draw):
    """A random place that was not run; None where there is none."""
    others = [place for place in places(runs.surface) if place not in runs.places()]
    return draw.choice(others) if others else None


def search(method, runs, start, seed):
    """Let a method have its runs; the point that it returns."""
    method(runs, runs.surface.place(start), seed)
    return leader(runs.seen)
