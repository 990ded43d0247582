"""One copy over stores of 1, 2, 4 and 8 servers on one machine: what striping itself costs or gives where nothing is added."""

from bench.harness import pairs, raw, result, subjects
from bench.harness.cases.copies import renamed
from bench.harness.pairs import Plan
from bench.harness.result import Amount, Bar
from testbed.errors import NotRun

COUNTS = [1, 2, 4, 8]


def server_counts(direction, size_bytes, bench):
    """All stores in each round, with the raw ceiling beside them; the others are compared with four servers."""
    source = bench.source(size_bytes)
    cast = []
    for count in COUNTS:
        label = f"{count} server" + ("s" if count > 1 else "")
        cast.append(
            subjects.thalweg(bench, bench.store(count), direction, source, sync=False, name=f"servers-{count}", label=label)
        )
    absent = []
    try:
        variants = raw.variants(bench, source, sync=False, checksums=True)
        cast.append(renamed(bench.fastest("raw-crc", False, variants), "raw-crc"))
    except NotRun as reason:
        absent.append({"name": "raw-crc", "label": raw.label(True), "reason": str(reason)})
    plan = Plan(least=3, most=4, seconds=8) if bench.quick else Plan(least=10, most=20, seconds=25)
    outcome = pairs.run(bench, cast, plan, "servers-4", Amount(size_bytes, "bytes"), bench.memory(size_bytes))
    bars = [Bar(subject.name) for subject in cast if subject.name != "servers-4"]
    document = result.of_pairs(outcome, cast, "servers-4", bars)
    return {**document, "absent": absent}
