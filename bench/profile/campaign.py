"""What `thalweg profile` promises, held against `perf`, against programs that count themselves, and against what it costs."""

import os
import time

from bench.profile import alone, beside_perf, page, profiler, truth
from bench.profile.loads import LOADS
from testbed import machine, paths
from testbed.campaign import Campaign, Item, attempt, say
from testbed.errors import NotRun
from testbed.results import now

# How long a quiet machine is waited for, and what is quiet.
QUIET_S = 60.0
QUIET_SHARE = 0.05
BY_NAME = {load.name: load for load in LOADS}
ITEMS = [
    *(Item(load.name, f"{load.title}, under `thalweg profile` and `perf record` at once, class by class") for load in LOADS),
    Item("truth", "Programs that count themselves what they spend in each class"),
    Item("study", "The tables of servers: GridFTP and our store, each read from and written to"),
    Item("cost", "What the profile costs over nfs-cp and GridFTP"),
]


class Profiles(Campaign):
    """Each item leaves a line, or several."""

    name = "profile"
    noun = "measurement"
    parts = ITEMS
    flags = ("program", "dir")
    quick = "5 s each; results go to target/NAME-quick"
    page = page
    results = staticmethod(page.table)
    place = "/var/tmp"

    def add_flags(self, parser):
        parser.add_argument("--seconds", type=int, help="how long each is (default: 20; with --quick 5)")
        parser.add_argument("--store", metavar="THALWEG", help="the thalweg whose store is profiled (default: --program, which makes the profiles)")

    def lines(self):
        there = self.table.all()
        known = {item.name: [there.get(key) for key in self.steps(item)] for item in ITEMS}
        return {name: _in_one(lines) for name, lines in known.items() if all(lines)}

    def is_done(self, line):
        builds = line.get("builds", [])
        return line.get("state") == "done" and all(one["thalweg_sha256"] == self.builds[key]["thalweg_sha256"] for build in builds for key, one in build.items())

    @property
    def store(self):
        """The command whose store is profiled."""
        return os.path.abspath(self.options.store or self.program)

    @property
    def builds(self):
        """Which programs."""
        return {"profiler": self.build, "store": paths.build(self.store)}

    def steps(self, item):
        """What is measured for an item, by the names of the lines."""
        if item.name == "truth":
            return {"truth": lambda: truth.measure(self.bench)}
        if item.name in ("study", "cost"):
            loads = alone.STUDY if item.name == "study" else alone.COST
            found = {f"alone-{name}": lambda name=name: alone.measure(self.bench, BY_NAME[name]) for name in loads}
            return {**found, "study": self._study} if item.name == "study" else found
        return {f"perf-{item.name}": lambda: beside_perf.measure(self.bench, BY_NAME[item.name])}

    def run(self, items):
        seconds = self.options.seconds or (5 if self.options.quick else 20)
        documents = []
        with profiler.Bench(self.store, self.program, self.scratch, seconds) as self.bench:
            common = {"machine": self.machine, "build": self.builds}
            for item in items:
                say(item.name)
                busy = quiet()
                for key, step in self.steps(item).items():
                    line = {"name": key, "measured": now(), "busy_before": busy, **common, **attempt(step)}
                    say(f"  {key}: {page.in_short(line)}")
                    self.table.put(line)
                    documents.append(line)
        return documents

    def code(self, documents):
        # What this machine cannot run is in the table.
        return int(any(document["state"] == "failed" for document in documents))

    def _study(self):
        """The table of the four, as a person gets it."""
        recordings = [os.path.join(profiler.KEPT, f"{name}.thw") for name in alone.STUDY]
        if not all(map(os.path.exists, recordings)):
            raise NotRun("not all four servers have been profiled")
        return {"title": "Servers, read from and written to", "text": profiler.show(self.bench, *recordings)}


def quiet():
    """Wait for a while until nothing else runs; how busy the machine was then."""
    busy = machine.busy_share()
    deadline = time.monotonic() + QUIET_S
    while busy and busy > QUIET_SHARE and time.monotonic() < deadline:
        busy = machine.busy_share()
    return busy


def _in_one(lines):
    """Several lines as one."""
    state = next((line["state"] for line in lines if line["state"] != "done"), "done")
    return {"state": state, "measured": min(line["measured"] for line in lines), "builds": [line["build"] for line in lines]}
