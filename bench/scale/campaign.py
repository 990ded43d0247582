"""The storms as a campaign: on real servers here, in a model of them, and in that of a site."""

import json
import os
import subprocess

from bench.scale import costs, page, points
from testbed import files
from testbed.campaign import CampaignOfRuns, Item, say
from testbed.errors import Broken
from testbed.paths import REPOSITORY, TARGET
from testbed.results import Results, now, write_text

RESULTS = os.path.join(REPOSITORY, "bench", "scale", "results.jsonl")
CARGO = os.path.join(REPOSITORY, "tools", "cargo")
PACKAGE = ["--locked", "--release", "--quiet", "-p", "thalweg-store"]
STORMS = {"measured": points.MEASURED, "model": points.MODEL, "site": points.SITE}
ITEMS = [
    Item("measured", "Storms on real servers on this machine"),
    Item("model", "Those storms, simulated"),
    Item("site", "Storms on a site of up to a thousand servers, simulated"),
]


class Storms(CampaignOfRuns):
    """Each item is many points, each of which is a storm."""

    name = "scale"
    noun = "part"
    parts = ITEMS
    quick = None
    page = page

    def results(self, path=None):
        return Results(path or RESULTS, "point", "thalweg.scale/1")

    def kept(self, item):
        return self.table, [points.name(item.name, point) for point in STORMS[item.name]]

    def measure(self, item):
        program = storms() if item.name == "measured" else simulation()
        named = {points.name(item.name, point): point for point in STORMS[item.name]}
        if not self.options.resume:
            self.table.remove(list(named))
        there = self.table.all()
        missing = {name: point for name, point in named.items() if name not in there}
        if item.name == "measured":
            measure(program, self.table, missing)
        else:
            simulate(program, self.table, missing, item.name, self.scratch)
        return {}


def storms():
    """The program that makes storms on real servers."""
    subprocess.run([CARGO, "build", *PACKAGE, "--example", "scale"], check=True, cwd=REPOSITORY)
    return os.path.join(TARGET, "release", "examples", "scale")


def measure(program, table, missing):
    """Storms on real servers. `Broken` when some fail, after the others."""
    failed = []
    for name, point in missing.items():
        runs = [storm([program, *(str(word) for word in point)]) for _ in range(points.REPETITIONS)]
        if None in runs:
            failed.append(name)
            continue
        middle = sorted(runs, key=lambda run: run["wall_s"])[len(runs) // 2]
        table.put({"point": name, "measured": now(), **middle, "walls_s": [run["wall_s"] for run in runs]})
        say(f"{name}: {middle['wall_s']:.3f} s, {middle['failed']} failed")
    if failed:
        raise Broken(f"storms that failed: {', '.join(failed)}")


def storm(argv):
    """What one storm printed; None where it did not."""
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode != 0:
        say(f"{' '.join(argv)}: {done.stderr.strip()}")
        return None
    return json.loads(done.stdout)


def simulation():
    """The program of the store's unit tests, of which one simulates what it is asked to."""
    command = [CARGO, "test", *PACKAGE, "--lib", "--no-run", "--message-format=json"]
    built = subprocess.run(command, check=True, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
    artifacts = (json.loads(text) for text in built.stdout.splitlines())
    return next(a["executable"] for a in artifacts if a.get("executable") and a["target"]["name"] == "thalweg_store")


def simulate(program, table, missing, shard, scratch):
    """Simulated storms, each by a process of its own: what is done is kept when it is ended."""
    fitted = costs.fit(table.all())
    asked, written = os.path.join(scratch, "points"), os.path.join(scratch, "outcome")
    command = [program, "scale::tests::storms_that_are_asked_for"]
    for name, point in missing.items():
        # Outcomes are appended to what is there.
        files.remove(written)
        write_text(asked, points.line(shard, point, fitted) + "\n")
        environment = {**os.environ, "THALWEG_SCALE_POINTS": asked, "THALWEG_SCALE_RESULTS": written}
        subprocess.run(command, check=True, cwd=os.path.join(REPOSITORY, "crates", "store"), env=environment, stdout=subprocess.DEVNULL)
        with open(written, encoding="utf-8") as source:
            outcome = json.loads(source.read())
        table.put({"point": name, "simulated": now(), **outcome})
        say(f"{name}: {outcome['last_s']:.3f} s, {outcome['failed']} failed; took {outcome['simulated_in_s']} s")
