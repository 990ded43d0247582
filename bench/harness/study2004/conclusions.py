"""The conclusions of the 2004 study, each held against what was measured: whether it holds today, by which figures, and why.

A claim that something is larger holds where the interval of the ratio (or difference) lies above, does not where it lies below, and cannot be told
where it covers both. One that its shard was not measured for says so.
"""

from dataclasses import dataclass, field

from bench.harness.study2004 import figures
from bench.harness.study2004.figures import Points

HOLDS, DOES_NOT, CANNOT, NOT_MEASURED = "**holds**", "**does not hold**", "**cannot be decided here**", "not measured yet"
MIB = 1 << 20
# What was left of NeST's write rate when its lots were on.
NEST_WITH_LOTS = 0.70


@dataclass
class Verdict:
    """What became of a conclusion: by which figures, and why; `shards` are those it rests on."""

    claim: str
    verdict: str
    figures: list
    why: str = ""
    shards: list = field(default_factory=list)


def interval(figure, unit="", digits=2):
    """`1.20 (1.10 to 1.31)`."""
    if figure is None:
        return "no figure"
    return f"{figure.middle:.{digits}f}{unit} ({figure.low:.{digits}f} to {figure.high:.{digits}f})"


def mib(figure):
    """A rate."""
    return f"{figure.middle / MIB:,.0f} MiB/s" if figure else "no figure"


def above(figure, least=1.0):
    """Whether a claim that this is larger holds."""
    if figure is None or figure.covers(least):
        return CANNOT
    return HOLDS if figure.low > least else DOES_NOT


def network(points):
    """Network writes cost more than reads."""
    send, receive = (points["ends"].runs(of="nothing", way=way) for way in ("read", "write"))
    ratio = figures.cost_ratio(send, receive)
    said = [f"sending costs the server {interval(figures.server_cost(send))} ns a byte, receiving {interval(figures.server_cost(receive))}"]
    said.append(f"sending over receiving: {interval(ratio)}")
    why = (
        "Nothing is read from or written to a file: the sender fills its buffers from /dev/zero (some hundredths of a nanosecond a byte, which are in its "
        "figure), the receiver writes to /dev/null."
    )
    return above(ratio), said, why


def disk(points):
    """Disk reads cost more than disk writes."""
    ends = points["ends"]
    read = figures.cost_more(ends.runs(of="disk", way="read"), ends.runs(of="memory", way="read"))
    write = figures.cost_more(ends.runs(of="disk", way="write"), ends.runs(of="memory", way="write"))
    said = [f"over a file in memory, a cold file on a disk adds {interval(read)} ns a byte to the server's own time when it is read"]
    said.append(f"{interval(write)} when it is written")
    why = (
        "A written file goes to the disk after the server has answered, by threads of the kernel whose time is nobody's; and the disk here is "
        "the testbed's, in memory behind a loop device, whose driver is not a disk's. What a disk costs only a machine with that disk can tell."
    )
    return CANNOT, said, why


def file_system(points):
    """File-system writes cost more than reads."""
    ends = points["ends"]
    of = [ends.runs(of=of, way=way) for way in ("write", "read") for of in ("memory", "nothing")]
    write, read = figures.cost_more(*of[:2]), figures.cost_more(*of[2:])
    more = figures.difference_of_more(*of)
    said = [f"a file in memory adds {interval(write)} ns a byte over /dev/null when it is written, {interval(read)} over /dev/zero when it is read"]
    said.append(f"writing over reading: {interval(more)} ns a byte more")
    why = (
        "Both copy the bytes once; writing also allocates and charges each page. Reading from /dev/zero instead of a file is not free, so that "
        "reading is understated."
    )
    return above(more, 0.0), said, why


def overlap(points):
    """Large blocks: disk and network do not overlap, and reads are slower by 16 %."""
    at = points["overlap"]
    blocks = at.values["block"]
    rates = {block: figures.rate(at.runs(source="disk", block=block)) for block in blocks}
    known = [block for block in blocks if rates[block]]
    if len(known) < 2:
        return CANNOT, ["fewer than two blocks have a rate"], ""
    best, largest = max(known, key=lambda block: rates[block].middle), known[-1]
    ratio = figures.times_as_fast(at.runs(source="disk", block=largest), at.runs(source="disk", block=best))
    memory = figures.rate(at.runs(source="memory", block=largest))
    said = [f"from a disk of 100 MiB/s over a link that carries {mib(memory)}: {mib(rates[best])} with blocks of {best}"]
    if best != largest:
        said.append(f"{mib(rates[largest])} with {largest}: {interval(ratio)} of it")
    if memory:
        said.append(f"without any overlap it would be {1 / (1 / 100 + MIB / memory.middle):.0f} MiB/s")
    slower = best != largest and ratio is not None and ratio.high < 1
    why = f"At {best}: {at.cause(source='disk', block=best)}. At {largest}: {at.cause(source='disk', block=largest)}."
    return (HOLDS if slower else DOES_NOT), said, why


def larger_blocks(points):
    """Larger blocks may lower the rate."""
    return _largest(points["block"], "block", "blocks of {}")


def store_blocks(points):
    """The same of our store's flow buffer."""
    return _largest(points["store-block"], "buffer", "flow buffers of {}")


def _largest(at, name, words):
    said, why, lower = [], [], False
    for way in at.values["way"]:
        rates = {value: figures.rate(at.runs(**{name: value, "way": way})) for value in at.values[name]}
        known = [value for value in at.values[name] if rates[value]]
        if not known:
            continue
        best, largest = max(known, key=lambda value: rates[value].middle), known[-1]
        ratio = figures.times_as_fast(at.runs(**{name: largest, "way": way}), at.runs(**{name: best, "way": way}))
        lower = lower or (best != largest and ratio.high < 1)
        said.append(f"{way}: {mib(rates[best])} with {words.format(best)}, {mib(rates[largest])} with {largest}: {interval(ratio)} of it")
        why.append(f"{way}, {best}: {at.cause(**{name: best, 'way': way})}; {largest}: {at.cause(**{name: largest, 'way': way})}")
    return (HOLDS if lower else DOES_NOT if said else CANNOT), said, ". ".join(why) + "."


def streams(points):
    """Parallel streams may reduce the server's load."""
    return _streams(points["streams"])


def store_streams(points):
    """The same of our store's connections."""
    return _streams(points["store-streams"])


def _streams(at):
    said, verdicts = [], []
    for way in at.values["way"]:
        one = at.runs(streams="1", way=way)
        costs = {n: figures.cost_ratio(at.runs(streams=n, way=way), one) for n in at.values["streams"][1:]}
        known = {n: cost for n, cost in costs.items() if cost}
        if not known:
            continue
        verdicts += known.values()
        times = ", ".join(f"{n}: {interval(cost)}" for n, cost in known.items())
        said.append(f"{way}: {interval(figures.server_cost(one))} ns a byte with one; times that with {times}")
    if not verdicts:
        return CANNOT, said, ""
    less, more = any(cost.high < 1 for cost in verdicts), any(cost.low > 1 for cost in verdicts)
    why = f"The rate is the link's at all points. One stream: {at.cause(streams='1', way='read')} (read), {at.cause(streams='1', way='write')} (write)."
    return (HOLDS if less else DOES_NOT if more else CANNOT), said, why


def transfers(points):
    """Concurrent transfers raise throughput, at more load on the server."""
    return _transfers(points["transfers"])


def store_transfers(points):
    """The same of our store."""
    return _transfers(points["store-transfers"])


def _transfers(at):
    said, verdicts, why = [], [], []
    for way in at.values["way"]:
        one = at.runs(transfers="1", way=way)
        rates = {n: figures.times_as_fast(at.runs(transfers=n, way=way), one) for n in at.values["transfers"][1:]}
        known = {n: ratio for n, ratio in rates.items() if ratio}
        if not known:
            continue
        best = max(known, key=lambda n: known[n].middle)
        load = figures.load_ratio(at.runs(transfers=best, way=way), one)
        cost = figures.cost_ratio(at.runs(transfers=best, way=way), one)
        verdicts.append({above(known[best]), above(load)})
        times = f"{interval(known[best])} times that, at {interval(load)} times the load and {interval(cost)} times the cost of a byte"
        said.append(f"{way}: {mib(figures.rate(one))} with one; with {best}, {times}")
        why.append(f"{way}, one: {at.cause(transfers='1', way=way)}; {best}: {at.cause(transfers=best, way=way)}")
    found = set().union(*verdicts)
    return (DOES_NOT if DOES_NOT in found else HOLDS if found == {HOLDS} else CANNOT), said, ". ".join(why) + "."


def thrashing(points):
    """Too many transfers: servers thrash, and crash."""
    at = points["thrashing"]
    said, falls, why = [], [], []
    for way in at.values["way"]:
        states = {n: at.point(transfers=n, way=way) for n in at.values["transfers"]}
        rates = {n: figures.rate(at.runs(transfers=n, way=way)) for n in states}
        known = [n for n in states if rates[n]]
        failed = [n for n in states if states[n]["state"] in ("failed", "timed_out")]
        if failed:
            first = states[failed[0]]
            said.append(f"{way}: with {', '.join(failed)}: {first['state'].replace('_', ' ')} ({first.get('problem', '')})")
        else:
            said.append(f"{way}: no copy failed")
        if len(known) < 2:
            continue
        best, most = max(known, key=lambda n: rates[n].middle), known[-1]
        ratio = figures.times_as_fast(at.runs(transfers=most, way=way), at.runs(transfers=best, way=way))
        falls.append(best != most and ratio.high < 1)
        said.append(f"{way}: {mib(rates[best])} with {best}, {mib(rates[most])} with {most}: {interval(ratio)} of it")
        why.append(f"{way}, {best}: {at.cause(transfers=best, way=way)}; {most}: {at.cause(transfers=most, way=way)}")
    return (HOLDS if any(falls) else DOES_NOT if falls else CANNOT), said, ". ".join(why) + "."


def lots(points):
    """Lots cost 30 % of the write rate."""
    ratio = lots_ratio(points["store-lots"])
    said = [f"our store writes into a lot at {interval(ratio)} of its rate outside; NeST at {NEST_WITH_LOTS:.2f}"]
    why = (
        "Nothing about a lot is written or asked when bytes are: its number travels with the datafile's, and its use is a number in the server's memory, "
        "counted again from the files when the server starts."
    )
    if ratio is None or ratio.covers(NEST_WITH_LOTS):
        return CANNOT, said, ""
    return (HOLDS if ratio.high < NEST_WITH_LOTS else DOES_NOT), said, why


def lots_ratio(at):
    """How many times the rate outside a copy into a lot has."""
    return figures.times_as_fast(at.runs(lots="on"), at.runs(lots="off"))


CLAIMS = [
    ("Network writes cost the server more than network reads", network, ["ends"]),
    ("Disk reads cost more than disk writes", disk, ["ends"]),
    ("File-system writes cost more than file-system reads", file_system, ["ends"]),
    ("With large blocks disk and network do not overlap, and reads are slower by 16 %", overlap, ["overlap"]),
    ("Larger blocks may lower the rate", larger_blocks, ["block"]),
    ("Larger blocks may lower the rate (our store)", store_blocks, ["store-block"]),
    ("Parallel streams may reduce the server's load", streams, ["streams"]),
    ("Parallel streams may reduce the server's load (our store)", store_streams, ["store-streams"]),
    ("Concurrent transfers raise throughput, at more load on the server", transfers, ["transfers"]),
    ("Concurrent transfers raise throughput, at more load on the server (our store)", store_transfers, ["store-transfers"]),
    ("Under too many transfers servers thrash, and crash", thrashing, ["thrashing"]),
    ("Lots cost a server 30 % of its write rate", lots, ["store-lots"]),
]


def verdicts(lines):
    """Each conclusion with what became of it."""
    points = {name: Points(line) for name, line in lines.items() if line["state"] == "done"}
    for claim, judge, shards in CLAIMS:
        missing = [name for name in shards if name not in points]
        if missing:
            reasons = [f"{name}: {lines[name].get('reason') if name in lines else 'no result'}" for name in missing]
            yield Verdict(claim, NOT_MEASURED, reasons, shards=shards)
        else:
            yield Verdict(claim, *judge(points), shards=shards)
