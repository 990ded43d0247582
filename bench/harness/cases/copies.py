"""One large file in or out: the store beside the raw stream and beside other people's programs."""

from bench.harness import pairs, raw, result, subjects
from bench.harness.pairs import Plan
from bench.harness.result import Amount, Bar
from testbed.errors import NotRun

BARS = [
    Bar("raw-crc", median=0.90),
    Bar("raw-bare", median=0.80, aim=True),
    Bar("gridftp-1", median=1.3),
    Bar("gridftp-4", median=1.3),
    Bar("nfs-cp", median=3.0),
]
# Neither promises durability as --sync does, and a disk that all wait for leaves little to compare: for information.
SYNC_BARS = [Bar("raw-crc", median=0.90), Bar("raw-bare"), Bar("gridftp-1"), Bar("gridftp-4"), Bar("nfs-cp")]


def copies(direction, size_bytes, bench, sync):
    """All programs in each round; the fastest setting of each peer, chosen in the same run."""
    source = bench.source(size_bytes)
    cast = [subjects.thalweg(bench, bench.store(), direction, source, sync)]
    absent = []
    for checksums in (True, False):
        family = "raw-crc" if checksums else "raw-bare"
        try:
            variants = raw.variants(bench, source, sync, checksums)
            cast.append(renamed(bench.fastest(family, sync, variants), family))
        except NotRun as reason:
            absent.append({"name": family, "label": raw.label(checksums), "reason": str(reason)})
    for streams in (1, 4):
        family = f"gridftp-{streams}"
        try:
            settings = subjects.gridftp(bench, direction, source, sync, streams)
            cast.append(renamed(bench.fastest(f"{family}-{direction}", sync, settings), family))
        except NotRun as reason:
            absent.append({"name": family, "label": f"GridFTP, {streams} stream(s)", "reason": str(reason)})
    try:
        cast.append(subjects.nfs_cp(bench, direction, source, sync))
    except NotRun as reason:
        absent.append({"name": "nfs-cp", "label": "nfs-cp", "reason": str(reason)})
    outcome = pairs.run(bench, cast, plan(bench, size_bytes), "thalweg", Amount(size_bytes, "bytes"), bench.memory(size_bytes))
    bars = SYNC_BARS if sync else BARS
    document = result.of_pairs(outcome, cast, "thalweg", bars)
    return {**document, "absent": absent}


def plan(bench, size_bytes):
    """As many rounds as the time of a case of this size allows, never fewer than ten."""
    if bench.quick:
        return Plan(least=3, most=4, seconds=10)
    if size_bytes >= 1 << 30:
        return Plan(least=10, most=12, seconds=70)
    return Plan(least=12, most=30, seconds=25)


def renamed(subject, name):
    """The chosen variant under its family's name; its label says which one it is."""
    chosen = subject.name.removeprefix(name).strip("-")
    subject.label = f"{subject.label} ({chosen})" if chosen else subject.label
    subject.name = name
    return subject
