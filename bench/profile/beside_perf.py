"""The same seconds under `thalweg profile` and under `perf record`, class by class."""

import os
from collections import Counter

from bench.profile import perf, profiler
from bench.profile.rules import Rules
from testbed.errors import Broken
from testbed.paths import REPOSITORY

CLASSES = os.path.join(REPOSITORY, "crates", "explain", "src", "profile", "classes.txt")
MOST_POINTS = 2.0
LEAST_SAMPLES = 10_000


def measure(bench, load):
    """A load's line."""
    data, recording = bench.kept(f"{load.name}.perf"), bench.kept(f"{load.name}-beside-perf.thw")
    with load.make(bench) as running, perf.recording(data, bench.kept(f"{load.name}-perf.log")):
        profile = profiler.Profile(bench, recording, running.ports)
        document = profile.finish()
        recorder = profile.process.pid
    said = profiler.attributes(recording)
    start_ns, end_ns = int(said["profile.start_ns"]), int(said["profile.end_ns"])
    theirs, seen = count(perf.samples(data), start_ns, end_ns, running, recorder)
    if not seen:
        raise Broken(f"perf has no samples between {start_ns} and {end_ns} ns of CLOCK_MONOTONIC")
    ours = {row["class"]: row["samples"] for row in document["classes"] if row["samples"] and row["class"] != "idle"}
    rows, fewest = compare(ours, theirs), min(sum(ours.values()), sum(theirs.values()))
    worst = max(abs(row["ours"] - row["perf"]) for row in rows)
    return {
        "title": load.title,
        "seconds": document["wall_s"],
        "samples": sum(ours.values()),
        "perf_samples": sum(theirs.values()),
        "lost": document["lost"],
        "classes": rows,
        "worst_points": worst,
        "met": worst <= MOST_POINTS and fewest >= LEAST_SAMPLES,
    }


def count(samples, start_ns, end_ns, running, recorder):
    """perf's samples of those seconds that are not idle, by class; and how many there are."""
    with open(CLASSES) as text:
        rules = Rules(text.read())
    counted = Counter()
    for sample in samples:
        if start_ns <= sample.at_ns <= end_ns and not sample.is_idle:
            counted[class_of(sample, rules, running, recorder)] += 1
    counted.pop("idle", None)
    return counted, sum(counted.values())


def class_of(sample, rules, running, recorder):
    """A sample's class: the program's own code is of somebody, the kernel's is the machine's."""
    if sample.pid == recorder:
        return "recorder"
    what, _ = rules.of_stack(sample.frames)
    return what if sample.frames[0].is_kernel or running.is_own(sample) else "others"


def compare(ours, theirs):
    """Percent of samples of either, the largest first."""
    def percent(counted, name):
        return 100.0 * counted.get(name, 0) / max(1, sum(counted.values()))

    rows = [{"class": name, "ours": percent(ours, name), "perf": percent(theirs, name)} for name in {*ours, *theirs}]
    return sorted(rows, key=lambda row: (-row["ours"], row["class"]))
