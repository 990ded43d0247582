"""The same copy with and without its recording: what being able to explain it costs."""

from bench.harness import pairs, result, subjects
from bench.harness.pairs import Plan
from bench.harness.result import Amount, Bar
from testbed import files


def recording(direction, size_bytes, bench):
    """Many pairs: the interval must be narrower than what is asked of it."""
    source = bench.source(size_bytes)
    store = bench.store()
    kept = lambda run: bench.path("recordings", f"{direction}-{run}.thw")  # noqa: E731
    off = subjects.thalweg(bench, store, direction, source, sync=False, name="off", label="recording off")
    on = subjects.thalweg(
        bench,
        store,
        direction,
        source,
        sync=False,
        name="on",
        label="recording on",
        extra=lambda run: ["--record", kept(run)],
    )
    off.figures = on.figures = ["elapsed_s"]
    check = on.after

    def check_both(run):
        files.remove(kept(run))
        check(run)

    on.after = check_both
    if bench.quick:
        plan = Plan(least=5, most=10, seconds=8)
    elif size_bytes >= 1 << 30:
        plan = Plan(least=10, most=24, seconds=40, narrow=0.02)
    else:
        plan = Plan(least=20, most=60, seconds=30, narrow=0.02)
    outcome = pairs.run(bench, [off, on], plan, "on", Amount(size_bytes, "bytes"), bench.memory(size_bytes))
    bars = [Bar("off", median=0.99, low=0.97)]
    document = result.of_pairs(outcome, [on, off], "on", bars)
    # For information: the copy alone, without start-up and without finishing the recording after it.
    told, _ = outcome.ratio("on", "off", "elapsed_s")
    document["bars"].append(result.absolute_bar("recording on / off by the copy's own clock", "", told, None))
    return document
