"""Two recordings of one run, by the kernel's recorder and an ordinary user's: are the waits of the one those of the other?

A wait is a span that a thread of the program was blocked in for a millisecond or more. Its end is when the thread was woken, or when it ran again: the
kernel's recorder tells both, an ordinary user's may know only one, and either is right. Its target is what it waited for: the kind, the object, and, of a
wait for another thread, which.
"""

import csv
import os
from dataclasses import dataclass

LEAST_NS = 1_000_000
NEAR_NS = 50_000
# Threads of programs, and not of recorders, devices or the kernel.
ROLES = ("client", "server", "mount")
SAME_END, SAME_TARGET = 0.98, 0.95


@dataclass(frozen=True)
class Wait:
    """One wait of a thread. `again_ns` is when the thread ran again; `waker` whom it waited for, where that is a thread."""

    tid: int
    kind: str
    begin_ns: int
    end_ns: int
    again_ns: int
    object: str = ""
    waker: tuple = ()

    @property
    def target(self):
        """What it waited for."""
        return (self.kind, self.object, self.waker if self.kind == "wait.lock" else ())


def read(directory):
    """The waits of a recording that was exported as CSV, by thread, and the threads that it has."""
    tracks = {row["track"]: row for row in _rows(directory, "tracks")}
    # What a lock is called says of which kind it is, and not which it is: that is told by who lets it go.
    objects = {row["object"]: "a lock" if row["kind"] == "lock" else row["name"] for row in _rows(directory, "objects")}
    threads = {name: int(row["tid"]) for name, row in tracks.items() if row["kind"] == "thread" and row["role"].split(":")[0] in ROLES}
    spans = [row for row in _rows(directory, "spans") if row["track"] in threads]
    queued = {(row["track"], row["start_ns"]): int(row["end_ns"]) for row in spans if row["kind"] == "wait.runqueue"}
    parents = {row["parent"] for row in spans if _blocked_ns(row) >= LEAST_NS}
    made = {tid: [] for tid in threads.values()}
    for row in spans:
        if row["kind"] == "wait.runqueue" or _blocked_ns(row) < LEAST_NS or row["span"] in parents or not row["kind"].startswith(("wait.", "file.", "net.")):
            continue
        tid, waker = threads[row["track"]], tracks.get(row["waker_track"])
        by = (int(waker["pid"]), int(waker["tid"])) if waker and waker["kind"] == "thread" and waker["pid"] else ()
        begin, end = int(row["start_ns"]), int(row["end_ns"])
        again = queued.get((row["track"], row["end_ns"]), end)
        # A call with a timeout that ended by it was a pause, whatever else it would have waited for.
        kind, of = ("wait.timer", "") if row["waker_context"] == "timer" else (row["kind"], objects.get(row["object"], ""))
        made[tid].append(Wait(tid, kind, begin, end, again, of, by))
    return made


def compare(kernel, user):
    """Each wait of the kernel's recording with the user's that overlaps it and ends nearest, or None. Only threads that both have."""
    pairs = []
    for tid in sorted(kernel.keys() & user.keys()):
        for wait in kernel[tid]:
            over = [other for other in user[tid] if _overlap_ns(wait, other) * 2 >= wait.end_ns - wait.begin_ns]
            pairs.append((wait, min(over, key=lambda other: apart_ns(wait, other), default=None)))
    return pairs


def apart_ns(wait, other):
    """How far apart two waits end."""
    return min(abs(other.end_ns - wait.end_ns), abs(other.end_ns - wait.again_ns), abs(other.again_ns - wait.again_ns))


def figures(pairs):
    """Of how many waits the end and the target are the same, what of a target differs, and how far apart ends are."""
    found = [(wait, other) for wait, other in pairs if other]
    differ = {}
    for wait, other in found:
        for what in ("kind", "object", "waker"):
            if what == "waker" and wait.kind != "wait.lock":
                continue
            mine, its = getattr(wait, what), getattr(other, what)
            if mine != its:
                words = f"{what}: {_words(mine)}, not {_words(its)}" if what == "kind" else f"{what} of {wait.kind}: {'absent' if not its else 'another'}"
                differ[words] = differ.get(words, 0) + 1
    return {
        "waits": len(pairs),
        "found": len(found),
        "ends": sum(apart_ns(wait, other) <= NEAR_NS for wait, other in found),
        "targets": sum(wait.target == other.target for wait, other in found),
        "differ": dict(sorted(differ.items(), key=lambda one: -one[1])),
        "waited_ns": sum(wait.end_ns - wait.begin_ns for wait, _ in pairs),
    }


def added(every):
    """The figures of several runs together."""
    made = {"waits": 0, "found": 0, "ends": 0, "targets": 0, "differ": {}, "waited_ns": 0}
    for one in every:
        for what in ("waits", "found", "ends", "targets", "waited_ns"):
            made[what] += one[what]
        for words, count in one["differ"].items():
            made["differ"][words] = made["differ"].get(words, 0) + count
    return {**made, "differ": dict(sorted(made["differ"].items(), key=lambda one: -one[1]))}


def bars(told):
    """(what, figure in words, met)."""
    share = lambda count: f"{count} of {told['waits']}"  # noqa: E731
    return [
        (f"ends within 50 µs, of ≥ {SAME_END:.0%}", share(told["ends"]), told["waits"] > 0 and told["ends"] >= SAME_END * told["waits"]),
        (f"the same target, of ≥ {SAME_TARGET:.0%}", share(told["targets"]), told["waits"] > 0 and told["targets"] >= SAME_TARGET * told["waits"]),
    ]


def _words(value):
    return value or "absent"


def _overlap_ns(one, other):
    return min(one.again_ns, other.again_ns) - max(one.begin_ns, other.begin_ns)


def _blocked_ns(row):
    return int(row["end_ns"]) - int(row["start_ns"]) - int(row["cpu_ns"] or 0) - int(row["runqueue_ns"] or 0)


def _rows(directory, table):
    csv.field_size_limit(1 << 30)
    with open(os.path.join(directory, f"{table}.csv"), newline="", encoding="utf-8") as source:
        return list(csv.DictReader(source))
