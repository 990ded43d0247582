"""Surfaces with known causes: each is a sweep over settings that the testbed makes, and at each point it is known what takes how long.

What limits a point is whichever takes longest. Where parts come one after another, their lengths are what they are given; where they overlap
(a disk behind a link), only the longest is waited for. Points where the second takes more than 80 % of the first's time are on the border: there
either is right.
"""

import json
import os
import string
from contextlib import contextmanager
from dataclasses import dataclass, field

from bench.harness import sweeping
from bench.harness.distances import Distances
from bench.harness.world import World
from testbed.paths import PROGRAMS, REPOSITORY
from testbed.results import RAW, Results

HERE = os.path.join(REPOSITORY, "bench", "surfaces")
# The share of the points at which the explanation is to be right.
ASKED = 0.95
MIB = 1 << 20
# What is so near to the longest is as good a limit.
BORDER = 0.8


@dataclass(frozen=True)
class Surface:
    """`seconds(values)`: how long each cause takes at a point, by its values as numbers; `along`: where the limit changes hands."""

    name: str
    title: str
    along: str
    seconds: callable
    bits_per_s: float = None
    round_trip_ms: float = 0.0
    round_trips_ms: tuple = ()
    disk_bytes_per_s: int = None
    source_bytes: int = 256 * MIB
    has_quota: bool = False
    # Other names of a cause that mean the same here.
    same: dict = field(default_factory=dict)

    @property
    def plan(self):
        """The plan's file."""
        return os.path.join(HERE, "plans", f"{self.name}.toml")

    def right(self, values):
        """The causes that are right at a point, the built-in one first."""
        seconds = self.seconds(**{name: float(value) for name, value in values.items()})
        order = sorted(seconds, key=seconds.get, reverse=True)
        causes = [cause for cause in order if seconds[cause] >= BORDER * seconds[order[0]]]
        return causes + [other for cause in causes for other in self.same.get(cause, ())]


SIZE = 32 * MIB
WINDOW = 64 << 10


def link(link, disk):
    return {"network.bandwidth": SIZE / (link * 1e6 / 8), "server.read": SIZE / (disk * MIB)}


def disk(disk, spin):
    # Read past the page cache, block by block: reading and computing take turns.
    return {"client.read": SIZE / (disk * MIB), "client.cpu": SIZE / MIB * spin / 1e3}


def round_trip(rtt, think):
    return {"network.latency": rtt, "server.think": think}


def stream_cap(streams, buffer):
    # A window for each round trip of 10 ms, for each stream; a link of 400 Mbit/s.
    return {"network.rwnd": SIZE / (streams * buffer * 1024 / 0.010), "network.bandwidth": SIZE / 50e6}


def quota(percent, spin):
    return {"client.runqueue": spin / (percent / 100) - spin, "client.cpu": spin}


def think(sleep, compute):
    return {"server.think": sleep, "client.cpu": compute}


SURFACES = [
    Surface("link", "A link, before a server's disk", "link", link, bits_per_s=1e9, disk_bytes_per_s=50 * MIB),
    Surface("disk", "A disk, and work on each block", "disk", disk, disk_bytes_per_s=50 * MIB),
    Surface("round-trip", "A round trip, and a server that answers late", "rtt", round_trip, round_trips_ms=(1, 2, 4, 8, 16)),
    Surface("stream-cap", "A window for each stream, on a long path", "streams", stream_cap, bits_per_s=4e8, round_trip_ms=10.0, same={"network.rwnd": ("network.sndbuf",)}),
    Surface("quota", "A part of a processor", "percent", quota, has_quota=True),
    Surface("think", "A server that thinks, and a client that computes", "sleep", think),
]


def score(surface, document):
    """How the explanations stand against what was built in: points right, and each place where the limit changes hands."""
    names = [one["name"] for one in document["parameters"]]
    points = []
    for point in document["points"]:
        values = dict(zip(names, point["values"], strict=True))
        said = (point.get("explanation") or {}).get("cause")
        right = surface.right(values)
        points.append({"values": point["values"], "state": point["state"], "built_in": right[0], "said": said, "right": said in right, "border": len(right) - len(surface.same.get(right[0], ())) > 1})
    steps = list(_steps(surface, document, points))
    return {"points": points, "right": sum(one["right"] for one in points), "steps": steps, "steps_right": sum(one["right"] for one in steps)}


def _steps(surface, document, points):
    """At each setting of the other parameters: between which cells the built-in cause changes, and the one that was said."""
    names = [one["name"] for one in document["parameters"]]
    at = names.index(surface.along)
    values = [value["label"] for value in document["parameters"][at]["values"]]
    groups = {}
    for one in points:
        groups.setdefault(tuple(one["values"][:at] + one["values"][at + 1 :]), {})[one["values"][at]] = one
    for others, row in groups.items():
        cells = [row[value] for value in values if value in row]
        # On the border either is right, and the other one is no change.
        found = [cell["built_in"] if cell["border"] and cell["right"] else cell["said"] for cell in cells]
        built, said = (_change(causes, cells[0]["built_in"], surface) for causes in ([cell["built_in"] for cell in cells], found))
        if built is None and said is None:
            continue
        # A limit that changes hands outside the grid is at its end.
        built, said = (len(cells) if one is None else one for one in (built, said))
        yield {"others": list(others), "built_in": built, "said": said, "right": abs(built - said) <= 1}


def _change(causes, first, surface):
    """The first cell that has another cause than the first cell was built with; None where all have it."""
    same = (first, *surface.same.get(first, ()))
    return next((n for n, cause in enumerate(causes) if cause not in same), None)


class Surfaces(sweeping.Sweeps):
    """The surfaces as a campaign."""

    name = "surfaces"
    noun = "surface"
    parts = SURFACES

    def results(self, path=None):
        return Results(path or os.path.join(HERE, "results.jsonl"), "surface", "thalweg.surfaces/1", raw=None if path else os.path.join(RAW, "bench", "surfaces"))

    def measure(self, surface):
        with self.distant(surface) if surface.round_trips_ms else self.near(surface) as (host, plan, output):
            self.sweep(host, plan, output)
            sweeping.keep(output, self.table.raw, surface.name)
            with open(f"{output}.json", encoding="utf-8") as document:
                return score(surface, json.load(document))

    @contextmanager
    def near(self, surface):
        """Two hosts and one link."""
        with World(surface, self.program, self.relay) as world:
            yield world.client, world.plan(), world.inside("sweep")

    @contextmanager
    def distant(self, surface):
        """Clients at several round trips; the sweep runs where the server is."""
        with Distances(surface.round_trips_ms, self.relay) as distances:
            directory = distances.scratch.directory
            trips = os.path.join(directory, "round-trips")
            os.mkdir(trips)
            for _, round_trip_ms, host, _ in distances.locations:
                os.symlink(f"/run/netns/{host.namespace}", os.path.join(trips, f"{round_trip_ms:g}"))
            words = {"round_trips": trips, "address": distances.servers.address, "programs": PROGRAMS, "here": HERE}
            plan = os.path.join(directory, "plan.toml")
            with open(surface.plan) as source, open(plan, "w") as out:
                out.write(string.Template(source.read()).substitute(words))
            yield distances.servers, plan, os.path.join(directory, "sweep")

    def show(self):
        """A line for each surface, and each point that is wrong; 1 unless all is as asked."""
        lines, right, points, met = self.table.all(), 0, 0, True
        for surface in SURFACES:
            line = lines.get(surface.name)
            if not line or line["state"] != "done":
                print(f"{surface.name:12} {line['reason'] if line else 'not measured'}")
                met = False
                continue
            right, points = right + line["right"], points + len(line["points"])
            steps = len(line["steps"])
            met = met and line["steps_right"] == steps
            print(f"{surface.name:12} {line['right']} of {len(line['points'])} points right, {line['steps_right']} of {steps} changes of hands within a cell")
            for one in line["points"]:
                if not one["right"]:
                    print(f"    {' '.join(one['values']):16} built in {one['built_in']}, said {one['said'] or one['state']}")
        met = met and points > 0 and right >= ASKED * points
        print(f"{right} of {points} points right; asked {ASKED:.0%} and each change within a cell: {'met' if met else 'MISSED'}")
        return 0 if met else 1
