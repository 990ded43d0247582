"""How good tuners are: the regret of the point that each returns, over whole grids that were measured, or made up, before."""

import json
import os
import random
import statistics
import subprocess
import tempfile

from bench.tune import measured as paths
from bench.tune import simulated as made_up
from bench.tune.rivals import Tpe, coordinate_descent, hill_climbing, random_search, search
from bench.tune.surface import Runs, leader, load
from testbed.errors import Broken, NotRun
from testbed.results import Results, now

SCHEMA = "thalweg.tune-bench/1"
RESULTS = os.path.join(paths.HERE, "results.jsonl")
SEEDS = range(1, 11)
OURS = "ours"
# After so many runs a tuner is asked for the first time.
EARLY = 3
# Differences of regret below this are ties.
TIE = 0.02
DRAWS = 2000
TIMEOUT_S = 60.0


def table(path=None):
    """The results, in the checkout or in a file elsewhere: a line for each path, and for each family that is made up."""
    return Results(path or RESULTS, "name", SCHEMA)


def measured(lines, program, seeds=SEEDS):
    """Score every tuner on every surface that is there; a line for each."""
    check(program)
    with Tpe() as tpe:
        for path in paths.PATHS:
            if os.path.exists(path.surface):
                surface = load(path.surface)
                line = one(surface, path.surface, path.default, program, tpe, seeds)
                lines.put({"name": path.name, "kind": "measured", "title": path.title, "program": path.program, "scored": now(), **line})


def simulated(seed, lines, program, surfaces=len(SEEDS)):
    """The same on surfaces that are made up with the seed, so many of each family; each is searched once."""
    check(program)
    with Tpe() as tpe, tempfile.TemporaryDirectory() as directory:
        for family in made_up.FAMILIES:
            found = []
            for number in range(surfaces):
                path = os.path.join(directory, f"{family}-{number}.json")
                default = made_up.write(family, f"{seed} {number}", path)
                found.append(one(load(path), path, default, program, tpe, [seed * 1000 + number]))
            lines.put({"name": f"simulated-{family}", "kind": "simulated", "title": made_up.FAMILIES[family].title, "seed": seed, "scored": now(), **joined(found)})


def joined(found):
    """Several surfaces of a family as one line."""
    methods = {name: {key: sum((one["methods"][name][key] for one in found), []) for key in found[0]["methods"][name]} for name in found[0]["methods"]}
    gains = [one["best_gain"] for one in found]
    return {"points": found[0]["points"], "budget": found[0]["budget"], "best_gain": statistics.median(gains), "methods": methods}


def one(surface, path, default, program, tpe, seeds):
    """Every tuner on a surface, with every seed: regrets at the end and after the first runs, the gain over the default, and how many runs."""
    start = surface.point(default)
    methods = {"random": random_search, "hill climbing": hill_climbing, "coordinates": coordinate_descent, "TPE": tpe}
    found = {name: {"regret": [], "early": [], "gain": [], "runs": []} for name in (OURS, *methods)}
    for seed in seeds:
        note(found[OURS], surface, start, *ours(surface, path, default, program, seed))
        for name, method in methods.items():
            runs = Runs(surface, seed)
            point = search(method, runs, start, seed)
            note(found[name], surface, start, point, runs.seen)
    best_gain = surface.medians[surface.best] / surface.medians[start]
    return {"points": len(surface.points), "budget": surface.budget, "default": default, "best": dict(zip(surface.names, surface.best, strict=True)), "best_gain": best_gain, "noise": surface.noise(), "methods": found}


def note(found, surface, start, point, seen):
    """Add one search to what a method found."""
    found["regret"].append(surface.regret(point))
    found["early"].append(surface.regret(leader(seen[:EARLY])))
    found["gain"].append(surface.medians[point] / surface.medians[start])
    found["runs"].append(len(seen))


def ours(surface, path, default, program, seed):
    """`thalweg tune` over the surface: the point that it returns, and its runs, each a point and a rate."""
    start = ",".join(f"{name}={value}" for name, value in default.items())
    argv = [program, "tune", "--replay", path, "--from", start, "--budget", str(surface.budget), "--seed", str(seed), "--json"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    if done.returncode:
        raise Broken(f"{' '.join(argv)}: {done.stderr.strip()[-300:]}")
    said = json.loads(done.stdout)
    seen = [(surface.point(run["values"]), run.get("rate") or 0.0) for run in said["runs"]]
    if len(seen) > surface.budget:
        raise Broken(f"{path}: {len(seen)} runs of {surface.budget}")
    return surface.point(said["winner"]["values"]), seen


def check(program):
    """`NotRun` where the command has no tuner."""
    try:
        can = subprocess.run([program, "tune", "--help"], capture_output=True, check=False).returncode == 0
    except OSError as reason:
        raise NotRun(f"{program}: {reason.strerror}; tools/build --release") from None
    if not can:
        raise NotRun(f"{program} has no `tune`: nothing to score")


def percentile(values, part):
    """The value below which this part of them lies, between the two nearest."""
    ordered = sorted(values)
    at = part * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (at - low) * (ordered[high] - ordered[low])


def pooled(lines, method, key="regret"):
    """What a method reached on all of these lines."""
    return [value for line in lines for value in line["methods"][method][key]]


def best_rival(lines):
    """The other method with the least mean regret."""
    others = [name for name in lines[0]["methods"] if name != OURS]
    return min(others, key=lambda name: statistics.fmean(pooled(lines, name)))


def against(lines, rival):
    """Ours minus the rival's regret, search by search: the mean, its 95 % interval over searches and over paths, and who won how often."""
    groups = [[a - b for a, b in zip(line["methods"][OURS]["regret"], line["methods"][rival]["regret"], strict=True)] for line in lines]
    every = [value for group in groups for value in group]
    return {
        "mean": statistics.fmean(every),
        "interval": interval([[value] for value in every]),
        "interval_of_paths": interval(groups),
        "won": sum(value < -TIE for value in every),
        "tied": sum(abs(value) <= TIE for value in every),
        "lost": sum(value > TIE for value in every),
    }


def interval(groups):
    """The 95 % interval of the mean, from drawing groups again; always the same for the same groups."""
    draw = random.Random(1)
    means = sorted(statistics.fmean([value for group in draw.choices(groups, k=len(groups)) for value in group]) for _ in range(DRAWS))
    return [percentile(means, 0.025), percentile(means, 0.975)]
