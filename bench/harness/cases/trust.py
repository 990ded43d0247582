"""What it costs that a store is closed: encryption, the proof of the credential, and strangers at the door.

All of it is in memory, in a network of its own (`bench.harness.apart`): an address there is beyond loopback, so that a store encrypts as it does
between machines.
"""

import json
import os
import re
import shlex

from bench.harness import pairs, raw, result, subjects
from bench.harness.cases.copies import renamed
from bench.harness.loops import LOOPS
from bench.harness.pairs import Plan, Subject
from bench.harness.result import Amount, Bar
from testbed import files, shell
from testbed.errors import Broken, NotRun
from testbed.processes import Process

LEAST_OF_PLAIN = 0.60
LEAST_IN_FLOOD = 0.50
MOST_HANDSHAKE_US = 2000
STATS = 50
# What examples/tls.rs prints, and what the page calls it.
TLS_FIGURES = {
    "full_us": ("handshake from nothing, us", "handshake from nothing, µs"),
    "resumed_us": ("handshake resumed, us", "handshake of a resumed session, µs"),
    "ratio": ("TLS / plain", "one connection, TLS / plain, 1 MiB at a time"),
    "trip_us": ("round trip of 200 bytes, TLS, us", "round trip of 200 bytes, TLS, µs"),
    "plain_trip_us": ("round trip of 200 bytes, plain, us", "round trip of 200 bytes, plain, µs"),
}


def encrypted(direction, size_bytes, bench):
    """A store that encrypts and one that does not, copy by copy, with the raw stream beside them."""
    place = bench.apart()
    source = place.source(size_bytes)
    made = lambda name, label, plain: subjects.thalweg(  # noqa: E731
        bench, bench.store_apart(plain), direction, source, sync=False, name=name, label=label, place=place
    )
    cast = [made("tls", "encrypted", False), made("plain", "--plain", True)]
    absent = []
    try:
        variants = raw.variants(bench, source, sync=False, checksums=True, apart=place)
        cast.append(renamed(bench.fastest("raw-crc-apart", False, variants), "raw-crc"))
    except NotRun as reason:
        absent.append({"name": "raw-crc", "label": raw.label(True), "reason": str(reason)})
    plan = Plan(least=3, most=4, seconds=10) if bench.quick else Plan(least=20, most=40, seconds=40, narrow=0.03)
    outcome = pairs.run(bench, cast, plan, "tls", Amount(size_bytes, "bytes"), bench.memory(size_bytes), pairs=[("plain", "raw-crc")])
    document = result.of_pairs(outcome, cast, "tls", [Bar("plain", median=LEAST_OF_PLAIN), Bar("raw-crc")])
    if not absent:
        of_raw, _ = outcome.ratio("plain", "raw-crc")
        document["bars"].append(result.absolute_bar("--plain / raw stream", "", of_raw, None))
    return {**document, "absent": absent}


def handshakes(bench):
    """What TLS costs by itself: 200 handshakes from nothing and 200 resumed in each run, and a stream of 256 MiB both ways of its own."""
    program = bench.program("examples/tls")
    said = bench.path("handshakes")
    words = ["sh", "-c", f"exec {shlex.quote(program)} 5 256 > {shlex.quote(said)}"]
    subject = Subject("tls", "400 handshakes, 5 × 2 streams", lambda run: words, after=lambda run: tls_figures(shell.read(said)), figures=list(TLS_FIGURES))
    rounds = 3 if bench.quick else 10
    outcome = pairs.run(bench, [subject], Plan(least=rounds, most=rounds, seconds=120), "tls", Amount(1, "runs"))
    document = result.of_pairs(outcome, [subject], "tls", [])
    figures = outcome.of("tls")["figures"]
    for name, (_, words) in TLS_FIGURES.items():
        told = pairs.summary(figures[name])
        is_full = name == "full_us"
        wanted, met = (f"≤ {MOST_HANDSHAKE_US:,}", told["median"] <= MOST_HANDSHAKE_US) if is_full else ("", None)
        document["bars"].append(result.absolute_bar(words, wanted, told, met))
    return document


def tls_figures(text):
    """The medians that examples/tls.rs prints."""
    found = {}
    for name, (begins, _) in TLS_FIGURES.items():
        line = re.search(rf"(?m)^{re.escape(begins)}\s+median\s+([0-9.]+)", text or "")
        if not line:
            raise Broken(f"examples/tls printed no `{begins}`")
        found[name] = float(line.group(1))
    return found


def connecting(bench):
    """`thalweg stat`, fifty times: a process, a connection with its proof, one question; on loopback, and apart in clear and encrypted."""
    cast = [
        asking(bench.store(), "loopback", "loopback: in clear"),
        asking(bench.store_apart(plain=True), "plain", "beyond loopback, --plain"),
        asking(bench.store_apart(plain=False), "tls", "beyond loopback, encrypted"),
        Subject("nothing", "thalweg --version: no connection", lambda run: many([bench.program("thalweg"), "--version"])),
    ]
    plan = Plan(least=3, most=5, seconds=10) if bench.quick else Plan(least=10, most=20, seconds=30)
    outcome = pairs.run(bench, cast, plan, "loopback", Amount(STATS, "commands"))
    return result.of_pairs(outcome, cast, "loopback", [Bar("plain"), Bar("tls"), Bar("nothing")])


def asking(store, name, label):
    """So many `thalweg stat`, one after the other."""
    store.run("mkdir", "-p", store.url("asked"))
    words = many([store.program, "stat", store.url("asked")])
    return Subject(name, label, lambda run: store.host.argv(words))


def many(words):
    """So many runs of a command in one."""
    return ["sh", "-ec", f"for i in $(seq {STATS}); do {shlex.join(words)} > /dev/null; done"]


def flooded(size_bytes, bench):
    """A copy in while strangers connect to all of the store's servers as fast as they can; beside it, while they connect to somebody else."""
    store, place = bench.store_apart(plain=True), bench.apart()
    source = place.source(size_bytes)
    made = lambda name, label: subjects.thalweg(bench, store, "in", source, sync=False, name=name, label=label, place=place)  # noqa: E731
    storm = among(Flood(place, listening(store)), made("flooded", "while strangers connect to the store"))
    beside = among(Flood(place, ["--apart", place.host.address]), made("beside", "while they connect to another program"))
    cast = [storm, made("alone", "alone"), beside]
    plan = Plan(least=3, most=4, seconds=10) if bench.quick else Plan(least=12, most=24, seconds=60)
    outcome = pairs.run(bench, cast, plan, "flooded", Amount(size_bytes, "bytes"), bench.memory(size_bytes))
    document = result.of_pairs(outcome, cast, "flooded", [Bar("alone", median=LEAST_IN_FLOOD), Bar("beside")])
    for subject, words in ((storm, "strangers at the store, connections per second"), (beside, "at another program")):
        told = pairs.summary(outcome.of(subject.name)["figures"]["strangers_per_s"])
        document["bars"].append(result.absolute_bar(words, "", told, None))
    return document


def among(flood, subject):
    """The same work while a flood goes on, which has begun when it starts; how many connections it made is a figure."""
    before, after = subject.before, subject.after

    def begin(run):
        before(run)
        flood.begin()

    def end(run):
        told = flood.end()
        after(run)
        return told

    subject.before, subject.after, subject.figures = begin, end, ["strangers_per_s"]
    return subject


class Flood:
    """`loops/strangers`, begun and ended."""

    def __init__(self, place, words):
        self.place, self.words = place, words
        self.log = place.path("flood.log")
        self.process = None

    def begin(self):
        """Returns when every address was reached."""
        files.remove(self.log)
        self.process = Process([os.path.join(LOOPS, "strangers"), *self.words], self.log, self.place.host)
        self.process.wait_for_word("strangers", failure=Broken)

    def end(self):
        """Connections per second; `Broken` when most of them failed."""
        self.process.stop()
        told = json.loads(self.process.last_line())
        if told["failed"] > told["made"]:
            raise Broken(f"{told['failed']} strangers could not connect, and {told['made']} could: that is no flood")
        return {"strangers_per_s": told["made"] / told["seconds"]}


def listening(store):
    """Where the servers of a store listen, by its store.toml: HOST:PORT of each."""
    return re.findall(r'(?m)^address = "(.+)"', shell.read(os.path.join(store.directories[0], "store.toml")) or "")
