"""How fast a large recording is explained, on one core, and in how much memory."""

import json
import os

from bench.harness import pairs, result, subjects
from bench.harness.bench import GIB
from bench.harness.command import timed
from bench.harness.pairs import Plan, Subject
from bench.harness.result import Amount
from testbed import files
from testbed.errors import Broken, NotRun

SPANS_PER_S = 5e6
PEAK_BYTES = GIB


def explaining(bench):
    """`thalweg explain --json` pinned to one core, over a generated recording (a quick run: 2 million spans)."""
    count = 2_000_000 if bench.quick else 20_000_000
    path = bench.path("recordings", f"generated-{count}.thw")
    generate = bench.program("examples/generate")
    bench.note(f"generating a recording of {count:,} spans")
    timed([generate, "--spans", str(count), path])
    core = max(os.sched_getaffinity(0))
    explain = Subject(
        "explain",
        "thalweg explain --json, one core",
        command=lambda run: ["taskset", "-c", str(core), bench.program("thalweg"), "explain", "--json", path],
        before=lambda run: subjects.warm(*files.files_under(path)),
        own=explained,
    )
    rounds = 3 if bench.quick else 5
    try:
        outcome = pairs.run(bench, [explain], Plan(least=rounds, most=rounds), "explain", Amount(count, "spans"))
    except Broken as failure:
        raise NotRun(str(failure)) from None
    finally:
        recording_bytes = sum(os.path.getsize(file) for file in files.files_under(path))
        files.remove(path)
    document = result.of_pairs(outcome, [explain], "explain", [])
    rates, peak = (document["subjects"][0][key] for key in ("rate_per_s", "peak_rss_bytes"))
    document["recording_bytes"] = recording_bytes
    document["bars"] = [
        result.absolute_bar("spans explained per second", "≥ 5 million", rates, rates["median"] >= SPANS_PER_S),
        result.absolute_bar("peak memory, bytes", "< 1 GiB", {"median": peak, "low": peak, "high": peak}, peak < PEAK_BYTES),
    ]
    return document


def explained(text):
    """The verdict and the model's error: an explanation that says nothing would be fast, too."""
    document = json.loads(text)
    if not document.get("critical_path"):
        raise Broken("the explanation has no critical path")
    return {key: document.get(key) for key in ("verdict", "model", "wall_s")}
