"""Twenty situations, each with N servers and with N + 1 in turn: a slow target, an imbalance, a busy client, many to one.

Devices are emulated, or shaped by the kernel, so that a server has a rate of its own on a machine that all of them share; all files are in memory.
A situation is met where one more server is not slower, or where the explanations of runs with it name what was built in (`bench.harness.one_more`).
"""

import json
import os
import shlex
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from bench.harness import one_more, pairs, result, subjects
from bench.harness.bench import MIB
from bench.harness.cluster import Cluster
from bench.harness.one_more import Cause
from bench.harness.pairs import Plan, Subject
from bench.harness.result import Amount
from testbed import files, shell
from testbed.errors import Broken, NotRun
from testbed.hosts import LOOPBACK
from testbed.processes import Process
from testbed.scratch import Scratch
from testbed.store import Store

COUNTS = range(1, 6)
PREFIX = "thalweg-bench-one-more"
DISK, SLOW_DISK = "100MiB/s", "25MiB/s"
CLIENTS = 4
PORT_BYTES_PER_S = 125e6
# What a port of a small switch holds for the one machine behind it: 250 KB at 1 Gb/s.
PORT_QUEUE_S = 0.002
# Where one more server is not faster, so many runs with it are explained.
EXPLAINED_RUNS = 3
BUSY = ["sh", "-c", "while :; do :; done"]
# A client needs a third of a processor to keep servers busy that have one; beside so many loops it does not get it.
BUSY_LOOPS = 4


@dataclass(frozen=True)
class Way:
    """So many servers. `make` gives the subject; with flags that record, the same copy recorded."""

    make: Callable[[list], Subject]

    @property
    def subject(self):
        """The copy as it is measured."""
        return self.make([])

    def explained(self, program, path, number):
        """The explanation of a run, whose recording is at `path` meanwhile."""
        subject = self.make(["--record", path])
        run = f"recorded-{number}"
        subject.before(run)
        shell.run(*subject.command(run), failure=Broken)
        subject.after(run)
        text = shell.run(program, "explain", "--json", path, failure=Broken)
        files.remove(path)
        return json.loads(text)


@dataclass(frozen=True)
class Situation:
    """N servers, N + 1 servers, and what keeps the latter from being faster."""

    before: Way
    after: Way
    cause: Cause


class World:
    """What a kind is made with: the bench, a place in memory, the size of what is copied, and what to undo."""

    def __init__(self, bench, size_bytes, directory, undo):
        self.bench = bench
        self.size_bytes = size_bytes
        self.directory = directory
        self.undo = undo
        self.source = files.make_source(self.path("source"), size_bytes)

    def path(self, *parts):
        """A path; its directory exists afterwards."""
        path = os.path.join(self.directory, *parts)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def store(self, name, servers, *flags, host=LOOPBACK):
        """A started store of so many servers."""
        directory = self.path(name)
        return self.undo.enter_context(Store(self.bench.program("thalweg"), [directory], directory + ".log", host, ["--servers", servers, *flags]))

    def copy(self, label, direction, store, flags=()):
        """A copy of the source into the store, or out of it."""
        name = label.replace(" ", "-")

        def make(more):
            extra = lambda run: [*flags, *more]  # noqa: E731
            return subjects.thalweg(self.bench, store, direction, self.source, sync=False, name=name, label=label, extra=extra, place=self)

        return Way(make)


def slow_target(world):
    """N equal disks, and then one of a quarter of their rate: each file has its part on it."""
    for n in COUNTS:
        equal = world.store(f"equal-{n}", n, "--emulate", f"disk={DISK}")
        mixed = world.store(f"mixed-{n}", n + 1, "--emulate", f"disk={DISK},disk.{n}={SLOW_DISK}")
        before, after = world.copy(servers(n), "in", equal), world.copy(f"{servers(n)} and a slow one", "in", mixed)
        yield Situation(before, after, Cause(("server.write",), (f"server io{n}:", f"emulated disk {n}")))


def imbalance(world):
    """Half of the bytes of each file are on the first server, however many there are: its disk is waited for with two as with six."""
    ways = []
    for n in range(1, COUNTS[-1] + 2):
        flags = ["--layout", f"varstrip_dist,strips={half_on_the_first(n)}", "--place", "round-robin:0"]
        ways.append(world.copy(servers(n), "in", world.store(f"store-{n}", n, "--emulate", f"disk={DISK}"), flags))
    return situations(ways, Cause(("server.write",), ("server io0:", "emulated disk 0")))


def busy_client(world):
    """The client has one processor, and busy loops beside it there; the servers have another."""
    if len(os.sched_getaffinity(0)) < 2:
        raise NotRun("client and servers are to have a processor each, and this machine has one")
    of_servers, of_client = sorted(os.sched_getaffinity(0))[:2]
    for number in range(BUSY_LOOPS):
        world.undo.callback(Process(BUSY, world.path(f"busy-{number}.log"), LOOPBACK.pinned(of_client)).stop)

    ways = []
    for n in range(1, COUNTS[-1] + 2):
        store = world.store(f"store-{n}", n, host=LOOPBACK.pinned(of_servers))
        # Who copies is elsewhere from now on.
        store.host = LOOPBACK.pinned(of_client)
        ways.append(world.copy(servers(n), "out", store))
    return situations(ways, Cause(("client.cpu", "client.runqueue")))


def many_to_one(world):
    """Four clients of one machine read from all servers at once: each server has a link, and all of them meet in one port of the same rate that
    holds little."""
    cluster = world.undo.enter_context(Cluster(world.bench.program("thalweg"), COUNTS[-1] + 1, None, PORT_BYTES_PER_S, queue_s=PORT_QUEUE_S, clients=1))
    part = files.make_source(world.path("part"), world.size_bytes // CLIENTS)
    program = [cluster.program, "cp", "--quiet", "--store", cluster.store]

    def way(n):
        inside = f"thal:/on-{n}"
        targets = ",".join(str(target) for target in range(n))
        shell.run(*cluster.clients[0].argv([*program, "--datafiles", str(n), "--place", f"targets:{targets}", part, inside]), failure=Broken)
        copies = lambda run: [world.path("out", f"{n}-{run}-{client}") for client in range(CLIENTS)]  # noqa: E731

        def make(more):
            def command(run):
                first, *others = ([*program, inside, copy] for copy in copies(run))
                return cluster.clients[0].argv(at_once([[*first, *more], *others]))

            def check(run):
                for copy in copies(run):
                    subjects.check_and_remove(copy, part, run)

            return Subject(f"{n}-servers", servers(n), command, after=check)

        return Way(make)

    return situations([way(n) for n in range(1, COUNTS[-1] + 2)], Cause(("network.bandwidth", "network.loss"), ("> client",)))


KINDS = [
    ("a slow target", 48 * MIB, slow_target),
    ("an imbalance", 64 * MIB, imbalance),
    ("a busy client", 128 * MIB, busy_client),
    ("many to one", 96 * MIB, many_to_one),
]


def one_more_server(bench):
    """All kinds, one after the other; one that cannot run here is absent, and its situations are not among those that are met."""
    document = {"reference": None, "amount": {"unit": "bytes"}, "subjects": [], "bars": [], "rounds": [], "absent": []}
    for title, size_bytes, make in KINDS:
        with Scratch(PREFIX) as scratch, ExitStack() as undo:
            try:
                world = World(bench, size_bytes // 4 if bench.quick else size_bytes, scratch.directory, undo)
                measured(title, world, list(make(world)), document)
            except NotRun as reason:
                document["absent"].append({"name": make.__name__, "label": title, "reason": str(reason)})
    asked, met = len(KINDS) * len(COUNTS), sum(bar["met"] for bar in document["bars"])
    count = {"median": met, "low": met, "high": met, "places": 0}
    document["bars"].append(result.absolute_bar("situations that are so", f"{asked}", count, met == asked))
    return document


def measured(title, world, all_situations, document):
    """Run a kind's copies in turn, judge each of its situations, and add what came of it to the document."""
    bench = world.bench
    ways = list({id(way): way for one in all_situations for way in (one.before, one.after)}.values())
    cast = [way.subject for way in ways]
    compared = [(one.after.subject, one.before.subject) for one in all_situations]
    plan = Plan(least=3, most=4, seconds=8) if bench.quick else Plan(least=12, most=24, seconds=60)
    outcome = pairs.run(bench, cast, plan, None, Amount(world.size_bytes, "bytes"), pairs=[(of.name, to.name) for of, to in compared])
    told = result.of_pairs(outcome, cast, None, [])
    document["subjects"] += [{**one, "label": f"{title}: {one['label']}"} for one in told["subjects"]]
    document["rounds"] += told["rounds"]
    document["cpu"] = told["cpu"]
    for one, (of, to) in zip(all_situations, compared, strict=True):
        ratio, ratios = outcome.ratio(of.name, to.name)
        runs = range(EXPLAINED_RUNS if ratio["low"] < 1.0 else 1)
        explanations = [one.after.explained(bench.program("thalweg"), world.path("recording.thw"), number) for number in runs]
        bar = one_more.bar(f"{title}: {of.label} / {to.label}", ratio, one.cause, explanations)
        document["bars"].append({**bar, "pairs": len(ratios), "ratios": ratios})
        bench.note(f"{bar['what']}: {ratio['median']:.3f} ({ratio['low']:.3f} to {ratio['high']:.3f}): {bar['word']}; {'; '.join(bar['said'])}")


def situations(ways, cause):
    """Each way beside the one with a server more."""
    return [Situation(before, after, cause) for before, after in zip(ways, ways[1:], strict=False)]


def half_on_the_first(n):
    """Strips of which the first server has as much as all others."""
    return ";".join([f"0:{max(n - 1, 1)}M", *(f"{other}:1M" for other in range(1, n))])


def servers(n):
    """So many, in words."""
    return f"{n} server" + ("s" if n > 1 else "")


def at_once(commands):
    """Several commands at the same time, as one; it fails where one of them does."""
    begun = "".join(f"{shlex.join(str(word) for word in words)} & p{at}=$!; " for at, words in enumerate(commands))
    return ["sh", "-c", begun + " && ".join(f"wait $p{at}" for at in range(len(commands)))]
