"""docs/results/STUDY-2004.md, from the results alone."""

import os

from testbed.paths import REPOSITORY
from testbed.results import Results, write_text

from bench.harness.study2004 import conclusions, figures, shards
from bench.harness.study2004.conclusions import MIB, interval, mib
from bench.harness.study2004.figures import Points

PAGE = os.path.join(REPOSITORY, "docs", "results", "STUDY-2004.md")
PROFILES = os.path.join(REPOSITORY, "bench", "profile", "results.jsonl")
SERVERS = {
    "alone-gridftp-read": "GridFTP, read from",
    "alone-gridftp-write": "GridFTP, written to",
    "alone-store-read": "our store, read from",
    "alone-store-write": "our store, written to",
}
CLASSES = {
    "idle": "idle",
    "netdrv": "network driver",
    "irq": "interrupts",
    "net": "TCP/IP",
    "copy": "memory copy",
    "fs": "page cache, file system",
    "block": "block layer, driver",
    "mm": "memory management",
    "sched": "scheduler, locks",
    "libc": "C library",
    "program": "program",
    "libraries": "other libraries",
    "others": "other programs",
}

PREFACE = """# The GridFTP study of 2004, made again

**Asked.** In 2004 a study profiled a GridFTP and a NeST server while clients read from and wrote to them, and measured rate and server
load against block size, TCP buffer, parallel streams, concurrent transfers, file size and path length. Do its conclusions hold today? This page repeats it with
globus-gridftp-server and globus-url-copy, and with [our own store](../STORE.md) in the place of NeST, which no longer exists. Each question is
one command, [`thalweg sweep`](../SWEEP.md); the plans are in [bench/study-2004/plans](../../bench/study-2004/plans).

{found}

**Missed, and why.** Whether disk reads cost a server more than disk writes cannot be decided here: the testbed's disk is in memory behind a loop device. Misses of the TLB
need hardware counters, which this virtual machine lacks.

```
make bench-study                         # the next shard, 1 to 8 minutes; writes bench/study-2004/results.jsonl and this page (root)
bench/study-2004/run --only overlap      # this one; --list names them, --page writes this page again
```

"""

METHOD = """## How it is measured

Client and server are network namespaces of one machine, joined by a pair of virtual Ethernet devices: shaped to a rate for studies of a link, otherwise as fast as
the processors carry it; or by the testbed's packet relay for studies of a round trip. No program encrypts (our store: `--plain`). Both ends share the machine's processors, so *as
fast as this machine goes* is the limit of both together. Files are in memory; a disk is the testbed's, of a known rate. The client writes to /dev/null.

Points run in shuffled order, repetition by repetition, after a first run that does not count; ten repetitions or the plan's number, fewer
if the interval was narrow. Rates are medians, ratios are taken repetition by repetition, the server's processor time is that of its process
group over all runs of a point; intervals are 95 %, by drawing runs again. **Reading** is from the server, **writing** to it. The cause is that of a
further run, recorded and explained.

"""

LOTS = """NeST gave owners *lots*: a guaranteed size for a guaranteed time. Their accounting took 30 % of its write rate. [Our store's lots](../LOTS.md) are
accounted for in the servers' memory; the same copies go into a directory with a lot and into one without, in turn.
"""

NOT_MEASURED = """## Not measured

- **Huge pages, TLB misses.** The 2004 study counted misses of the TLB with hardware counters and asked for the gain of larger pages. This virtual
  machine has no performance counters (`perf` has no hardware event), so nothing can be counted here, and no figure is invented.
- **NeST** is no longer available; for comparisons of two servers, this page has our store.
- **Rates of 2004.** Machines twenty years apart do not compare; conclusions do.
"""


def write(table, path=PAGE):
    """Write the page; its path."""
    write_text(path, text(table.all()))
    return os.path.relpath(path, REPOSITORY)


def text(lines):
    """All of it."""
    found = list(conclusions.verdicts(lines))
    parts = [PREFACE.replace("{found}", _found(found)), _measured(lines), _conclusions(found), lots(lines), _advice(lines), METHOD, _curves(lines), profiles(), NOT_MEASURED]
    return "".join(parts)


def _found(found):
    """How many conclusions hold."""
    words = {conclusions.HOLDS: "hold", conclusions.DOES_NOT: "do not hold", conclusions.CANNOT: "cannot be decided here", conclusions.NOT_MEASURED: "are not measured yet"}
    counted = [(sum(one.verdict == verdict for one in found), told) for verdict, told in words.items()]
    return f"**Found.** Of {len(found)} conclusions {', '.join(f'{count} {told}' for count, told in counted if count)}."


def _measured(lines):
    done = [line for line in lines.values() if line["state"] == "done"]
    if not done:
        return "Nothing has been measured yet.\n\n"
    one = max(done, key=lambda line: line["measured"])
    busy = max(line.get("busy_before") or 0.0 for line in done)
    first, last = (pick(line["measured"][:10] for line in done) for pick in (min, max))
    when = first if first == last else f"{first} to {last}"
    left = [shard.name for shard in shards.SHARDS if shard.name not in {line["shard"] for line in done}]
    on = one["machine"]
    words = f"Measured {when} on {on['cores']} processors ({on.get('processor', 'unknown')}), kernel {on['kernel']}, a virtual machine; "
    words += f"at most {busy:.0%} busy with other things when a shard began."
    return words + (f" No result yet: {', '.join(left)}." if left else "") + "\n\n"


def _conclusions(found):
    out = ["## Its conclusions\n", "| conclusion of 2004 | today | by |", "|---|---|---|"]
    out += [f"| {one.claim} | {one.verdict} | {'; '.join(one.figures)} |" for one in found]
    out += ["", "**Why**, by the explanations of the recorded runs and what was measured:", ""]
    out += [f"- *{one.claim}*: {one.why}" for one in found if one.why]
    return "\n".join(out) + "\n\n"


def lots(lines, level=2):
    """NeST's column beside ours: what a guarantee of space costs who writes."""
    line = lines.get("store-lots")
    if not line or line["state"] != "done":
        return ""
    at = Points(line)
    runs = {lots: at.runs(lots=lots) for lots in ("off", "on")}
    rates = {lots: figures.rate(one) for lots, one in runs.items()}
    if not all(rates.values()):
        return ""
    shown = {lots: f"{rate.middle / MIB:,.0f} MiB/s ({rate.low / MIB:,.0f} to {rate.high / MIB:,.0f})" for lots, rate in rates.items()}
    costs = {lots: interval(figures.server_cost(one)) for lots, one in runs.items()}
    out = ["#" * level + " Lots on, lots off\n", LOTS, "| | NeST, 2004 | our store |", "|---|--:|--:|"]
    out.append(f"| write rate, lots on / lots off | {conclusions.NEST_WITH_LOTS:.2f} | {interval(conclusions.lots_ratio(at))} |")
    out += [f"| write rate, lots {lots} | | {shown[lots]} |" for lots in shown]
    out += [f"| ns of server a byte, lots {lots} | | {costs[lots]} |" for lots in costs]
    return "\n".join(out) + "\n\n"


def _best(lines, name, parameter, **fixed):
    """The smallest value of a parameter that is indistinguishable from the best, its rate, and that of the first value."""
    line = lines.get(name)
    if not line or line["state"] != "done":
        return None
    at = Points(line)
    rates = {value: figures.rate(at.runs(**{parameter: value, **fixed})) for value in at.values[parameter]}
    known = {value: rate for value, rate in rates.items() if rate}
    if not known:
        return None
    best = max(known, key=lambda value: known[value].middle)

    def is_best(value):
        ratio = figures.times_as_fast(at.runs(**{parameter: value, **fixed}), at.runs(**{parameter: best, **fixed}))
        return value == best or (ratio is not None and ratio.high >= 1)

    enough = next(value for value in known if is_best(value))
    return enough, known[enough], best, known[best], known


def _advice(lines):
    """What a user should set, where there are figures for it."""
    out = ["## What to set in 2026\n"]
    for words, name, parameter, ways in [
        ("Block size", "block", "block", ("read", "write")),
        ("TCP buffer on a short path", "buffer", "buffer", ("read", "write")),
        ("Streams on a short path", "streams-fast", "streams", ("read", "write")),
        ("Concurrent transfers", "transfers", "transfers", ("read", "write")),
        ("Our store's flow buffer", "store-block", "buffer", ("read", "write")),
    ]:
        said = []
        for way in ways:
            best = _best(lines, name, parameter, way=way)
            if best:
                enough, rate, top, top_rate, _ = best
                least = f"{enough}{' (the system decides)' if parameter == 'buffer' and enough == '0' else ''}"
                said.append(f"{way}: {least} is enough ({mib(rate)})" + ("" if top == enough else f", indistinguishable from the best, {top} ({mib(top_rate)})"))
        if said:
            out.append(f"- **{words}.** {'; '.join(said)}.")
    far = lines.get("far")
    if far and far["state"] == "done":
        out.append(_far(Points(far)))
    if len(out) == 1:
        return ""
    return "\n".join(out) + "\n\n"


def _far(at):
    """Streams and buffer on the long path."""
    said = []
    for buffer in at.values["buffer"]:
        rates = {n: figures.rate(at.runs(streams=n, buffer=buffer)) for n in at.values["streams"]}
        known = {n: rate for n, rate in rates.items() if rate}
        if known:
            name = "the system's own sizing" if buffer == "0" else f"a buffer of {buffer}"
            ends = list(known)[0], max(known, key=lambda n: known[n].middle)
            said.append(f"with {name} {mib(known[ends[0]])} by one stream and at most {mib(known[ends[1]])} (by {ends[1]})")
    return f"- **At 10 ms round trip and 400 Mbit/s (47.7 MiB/s).** {'; '.join(said)}."


def _curves(lines):
    out = ["## The curves\n"]
    for shard in shards.SHARDS:
        line = lines.get(shard.name)
        if not line:
            continue
        out.append(f"### {line['title']}\n")
        disk = f", a server's disk of {line['disk_bytes_per_s'] / MIB:.0f} MiB/s" if line.get("disk_bytes_per_s") else ""
        if line["state"] != "done":
            out.append(f"**{line['state'].upper()}**: {line['reason']}\n")
            continue
        out.append(f"Link: {line['link']}{disk}. Plan: [{shard.name}.toml](../../bench/study-2004/plans/{shard.name}.toml). {line['sentence']}\n")
        out += _table(line)
        out += [f"![{line['title']}](study-2004/{name})\n" for name in line["pictures"]]
    return "\n".join(out) + "\n"


def _table(line):
    """A row for each point: rate, what it costs both ends, and the cause."""
    at = Points(line)
    out = [f"| {' | '.join(at.names)} | rate | ns of server a byte | ns of client a byte | cause |", "|" + "---|" * len(at.names) + "--:|--:|--:|---|"]
    for point in line["points"]:
        runs = point["runs"] if point["state"] == "done" else []
        values = " | ".join(point["values"])
        if not runs:
            out.append(f"| {values} | {point['state'].replace('_', ' ')} | | | {point.get('problem', '')[:120]} |")
            continue
        rate, cost = figures.rate(runs), figures.server_cost(runs)
        client = sum(run[figures.CLIENT_CPU_S] for run in runs) / sum(run[figures.BYTES] for run in runs) * 1e9
        shown = f"{rate.middle / MIB:,.0f} MiB/s ({rate.low / MIB:,.0f} to {rate.high / MIB:,.0f})"
        out.append(f"| {values} | {shown} | {interval(cost) if cost else ''} | {client:.2f} | {at.cause(**dict(zip(at.names, point['values'], strict=True)))} |")
    return [*out, ""]


def profiles(level=2):
    """The tables of whole servers, which bench/profile has measured."""
    lines = {line["name"]: line for line in Results(PROFILES, "name", "thalweg.bench-profile/1").all().values() if line["state"] == "done"}
    known = [name for name in SERVERS if name in lines]
    if not known:
        return ""
    out = ["#" * level + " Profiles of the servers\n", "Percent of processor time of the machine, by `bench/profile` ([PROFILE.md](PROFILE.md) has how, and its errors): copies of 1 GiB, one after the other.\n"]
    out += [f"| | {' | '.join(SERVERS[name] for name in known)} |", "|---|" + "--:|" * len(known)]
    for key, title in CLASSES.items():
        shares = [lines[name]["classes"].get(key) for name in known]
        if any(share and share >= 0.0005 for share in shares):
            out.append(f"| {title} | {' | '.join(f'{share:.1%}' if share else '' for share in shares)} |")
    out.append(f"| rate | {' | '.join(mib_of(lines[name].get('rate_bytes_per_s')) for name in known)} |")
    return "\n".join(out) + "\n\n"


def mib_of(rate):
    """A rate that may not be known."""
    return f"{rate / MIB:,.0f} MiB/s" if rate else ""
