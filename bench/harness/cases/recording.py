"""The same copy with and without its recording: what being able to explain it costs. Rounds as `bench.harness.rounds` has them."""

from bench.harness import recorded, result, rounds, subjects
from bench.harness.bench import GIB, whole
from bench.harness.recorded import Work, fine
from bench.harness.rounds import ALONE
from testbed import files
from testbed.errors import Broken

LEAST = 0.99


def recording(direction, size_bytes, bench):
    """Whole commands are compared; the copy by its own clock, without start-up and without finishing the recording, stands beside."""
    source, store = bench.source(size_bytes), bench.store()
    copy = [store.program, "cp", "--force", "--json"]
    inside, outside = store.url("recorded-in"), bench.path("out", "recorded")
    ends = [source, inside] if direction == "in" else [store.url(subjects.put_once(bench, store, source)), outside]
    memory_bytes = min(3 * size_bytes, 2 * GIB)
    kept = bench.path("recordings", direction + "-{lap}.thw")
    off = Work(direction, store.host.argv([*copy, *ends]), LEAST, memory_bytes=memory_bytes, own="elapsed_s")
    on = Work(direction, store.host.argv([*copy, "--record", kept, *ends]), LEAST, memory_bytes=memory_bytes, own="elapsed_s", remove=kept)
    times = recorded.laps_of(off, bench)
    document = recorded.measured(off, lambda kind: recorded.ran((off if kind == ALONE else on).lap(times)), times, bench, "bytes", size_bytes)
    check(direction, store, source, outside)
    made = document.pop("made")
    document["bars"] = recorded.ratio_bars(f"copy {direction}: recording on", LEAST, made)
    own = rounds.estimate(made, lambda some: rounds.kept(some, "own"))
    document["bars"].append(fine(result.absolute_bar("recording on / off by the copy's own clock", "", own.summary(), None), 3))
    return document


def check(direction, store, source, outside):
    """`Broken` unless the last copy is whole; it is removed."""
    if direction == "in":
        store.run("cp", "--force", store.url("recorded-in"), outside)
        store.remove("recorded-in")
    try:
        whole(outside, source, 0)
    except OSError as reason:
        raise Broken(f"the copy cannot be read: {reason}") from reason
    finally:
        files.remove(outside)
