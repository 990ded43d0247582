"""The section on `rpcstat`."""

from bench.harness.classics import kept
from bench.harness.classics.words import percent, picture, quote, share, spread, table

MIB = 1 << 20

INTRODUCTION = """## 3. What stalls an NFS client? (2001)

**The study.** `rpcstat` watched the RPC layer of an NFS client that wrote 2,000 MB: each request's send and completion, the pending queue against the RPC window, throughput and
timeouts over time. It consists of graphs, and four stories. (1) A server with a volume of two slow disks: each timeout stops everything for about 1.5 s, and the window
collapses to one or two. (2) With six disks: no timeout, one gap; the queue drains in cycles, for 24 ms against a filer, which answers stable writes from memory, and for
30 ms against a server that waits for its disk. (3) In a gap the queue is full (the server stalls), empty (the client stopped), or *partly full*, which stayed open. (4) The first seconds
are slow: many small gaps with the queue full. It asked: why does nothing complete while requests are sent; why does one timeout stop everything; what are the variations at the
start; is processing in the RPC layer itself a bottleneck?

**Made again.** The lab's asynchronous client writes as much to NFS-Ganesha over a link of 1 Gb/s, from packets alone (`thalweg rpcstat`, at the client) and, besides, recorded at both ends
(`thalweg record --also ganesha.nfsd`), which says what the server did meanwhile. The server's volume is a paced disk with the rate of two or of six disks of 21 MiB/s; it holds at
most 64 MiB unwritten, as a server of that time would.

"""


def text(lines):
    """The section."""
    if not kept.runs(lines, "volumes", "two-disks"):
        return ""
    parts = [INTRODUCTION, _set_up(), "\n", _volumes(lines), _cycles(lines), _stalls(lines), _recorders(lines), _layers(lines), COMMANDS]
    return "".join(parts)


def _set_up():
    rows = [
        ["client", "the Linux kernel's NFS client", "`lab/nfs-client`: 16 calls of 32 KiB, an RPC window that timeouts halve, a timer of 0.7 s; a COMMIT every 250 MiB"],
        ["server", "a filer with NVRAM; a Linux server", "NFS-Ganesha 4 on ext4"],
        ["disks", "two, then six", "a paced disk with the rate of two, of six"],
        ["written", "2,000 MB", "2,000 MiB"],
        ["watched by", "`rpcstat`, which polled every 0.15 ms", "packets at the client; the kernel's recorder at both ends"],
    ]
    return table(["", "2001", "here"], rows, right=3)


def _of(runs, get):
    """A figure of each run, where it has it."""
    found = []
    for run in runs:
        try:
            found.append(get(run))
        except (KeyError, TypeError, IndexError):
            found.append(None)
    return found


def _stalled(who):
    return lambda run: sum(one["total_s"] for one in run["rpcstat"]["stalls"]["by"] if one["who"] == who)


def _longest(run):
    return max(one["length_s"] for one in run["rpcstat"]["stalls"]["longest"])


def _row(title, runs):
    return [
        title,
        spread(_of(runs, lambda run: run["rpcstat"]["wall_s"]), 1, 1, " s"),
        spread(_of(runs, lambda run: run["rpcstat"]["sent_bytes"] / run["rpcstat"]["wall_s"]), 1 / MIB, 1, " MiB/s"),
        spread(_of(runs, lambda run: run["client"]["timeouts"]), 1, 0),
        spread(_of(runs, lambda run: run["rpcstat"]["stalls"]["count"]), 1, 0),
        spread(_of(runs, _longest), 1, 2, " s"),
        spread(_of(runs, _stalled("server")), 1, 2, " s"),
        spread(_of(runs, _stalled("client")), 1, 2, " s"),
        spread(_of(runs, _stalled("network")), 1, 2, " s"),
    ]


HEADS = ["", "time", "rate", "timeouts", "stalls", "the longest", "stalled by the server", "the client", "the network"]


def _volumes(lines):
    rows = [_row(title, kept.runs(lines, "volumes", name)) for name, title in (("two-disks", "two disks"), ("six-disks", "six disks"), ("six-disks-second", "six disks, a second transfer"))]
    both = kept.runs(lines, "volumes", "two-disks-both-ends")
    said = "**Two disks, then six.** The story is the study's: with two, calls time out, each while everything has stopped; with six, none does.\n\n" + table(HEADS, rows) + "\n"
    said += picture("rpcstat-volumes", "Two disks above, six below, on equal axes: throughput, calls, the pending queue, response times; what is shaded is waiting, by whom") + "\n"
    said += picture("rpcstat-two-disks", "Two disks by themselves: below, a typical drain cycle and the longest stall, call by call: everything waits for one COMMIT") + "\n"
    said += "From packets, `thalweg rpcstat` says of one of the runs with two disks:\n\n" + quote(kept.runs(lines, "volumes", "two-disks")[0]["text"])
    if both:
        said += "\n**Why does one timeout stop everything?** Not the timeout does. Recorded at both ends, the server's threads are in dirty throttling and in the sync of a COMMIT when the timer "
        said += "expires: the call is late because its server waits for the disk, all other calls wait for the same disk, and sending again changes nothing.\n\n"
        said += quote(both[0]["explained"]["text"]) + "\n"
    return said


def _cycles(lines):
    rows = []
    for name, title in (("memory", "answered from memory"), ("disk", "the disk has it first")):
        runs = kept.runs(lines, "cycles", name)
        rows.append(
            [
                title,
                {"memory": "24 ms (the filer)", "disk": "30 ms"}[name],
                spread(_of(runs, lambda run: run["rpcstat"]["drain_cycles"]["count"]), 1, 0),
                spread(_of(runs, lambda run: run["rpcstat"]["drain_cycles"]["median_s"]), 1e3, 1, " ms"),
                spread(_of(runs, lambda run: run["rpcstat"]["drain_cycles"]["period_s"]), 1e3, 0, " ms"),
            ]
        )
    if not kept.runs(lines, "cycles", "disk"):
        return ""
    said = "**Drain cycles.** The client sends nothing until all of 8 MiB are answered and a COMMIT is, 125 times in 1,000 MiB:\n\n"
    said += table(["", "2001", "cycles", "length, median", "one every"], rows)
    said += "\nThe server whose disk must have the bytes drains for as long as its disk takes for 8 MiB; the one that answers from memory for a fraction of that, where the filer of 2001 took 24 ms.\n\n"
    said += picture("rpcstat-cycles", "Answered from memory above, from the disk below, on equal axes") + "\n"
    return said + picture("rpcstat-disk", "From the disk by itself: below, how long cycles are, and a typical one, call by call") + "\n"


def _stalls(lines):
    two, begun = kept.runs(lines, "stalls", "two-stalls"), kept.runs(lines, "stalls", "slow-beginning")
    both = kept.runs(lines, "stalls", "slow-beginning-both-ends")
    if not two or not begun:
        return ""
    start = begun[0]["rpcstat"].get("slow_start") or {}
    said = "**A gap that is made of two stalls.** A client stops for 0.9 s while a slow disk still has calls of it: the queue is partly full, and replies come: so far it is the server; then it is "
    said += "empty: from there on the client. *Partly full* alone says nothing; what comes next does.\n\n"
    said += picture("rpcstat-two-stalls", "The gap in the middle: first the server answers what is pending, then nothing is pending and the client has stopped") + "\n"
    said += "**The slow beginning.** A disk that is slow for its first two seconds: "
    if start:
        said += f"{start['bytes_per_s'] * 8 / 1e6:,.0f} Mb/s until {start['until_s']:.1f} s, {start['later_bytes_per_s'] * 8 / 1e6:,.0f} Mb/s after it; the queue is full in the gaps, "
        said += f"empty for {percent(start['empty_share'])} of the time. So the variations at the start are the server's.\n\n"
    said += picture("rpcstat-slow-beginning", "The beginning: many small gaps, and the queue is full in each: the server") + "\n"
    if both:
        said += "Recorded at both ends:\n\n" + quote(both[0]["explained"]["text"]) + "\n"
    return said


def _recorders(lines):
    rows = []
    for name, title in (("none", "none"), ("ours", "`thalweg record`"), ("spinning", "one that looks for events without a pause (`--drain 0`)")):
        runs = kept.runs(lines, "recorders", name)
        shares = [share(run["explained"]["charges"], "recorder") for run in runs if "explained" in run]
        rows.append([title, spread(_of(runs, lambda run: run["client"]["seconds"]), 1, 2, " s"), percent(kept.middle(shares)) if shares else ""])
    spinning = kept.runs(lines, "recorders", "spinning")
    if not spinning:
        return ""
    said = "**Why does nothing complete while requests are sent?** That was the tool itself, it turned out later: it polled every 0.15 ms and took the processor on which replies were to be "
    said += "taken in. A recorder that does so is a cause, and the explanation names it. The client here needs most of one processor, and has its recorder on the same one:\n\n"
    said += table(["recorder", "time of 500 MiB", "`recorder`, of the time"], rows) + "\n" + quote(spinning[0]["explained"]["text"])
    return said + "\nIn the pictures above, which are of packets, calls complete while others are sent.\n\n"


def _layers(lines):
    runs = kept.runs(lines, "layers", "classes")
    if not runs:
        return ""
    classes = {}
    for run in runs:
        host = run["profile"]["hosts"][0]
        for one in host["classes"]:
            if one["class"] != "idle":
                classes.setdefault((one["class"], one["title"]), []).append(one["seconds"] / host["busy_s"] if host.get("busy_s") else None)
    means = sorted(((kept.middle(values), title) for (_, title), values in classes.items()), reverse=True)
    rows = [[title, percent(value)] for value, title in means if value >= 0.005]
    said = "**Is the RPC layer itself a bottleneck?** Of both ends' processor time over 2,000 MiB that nothing else held up (`thalweg profile --also ganesha.nfsd`):\n\n"
    said += table(["class", "of the time that processors were busy"], rows)
    return said + "\nNFS and RPC are user space here at both ends (the classes *program* and *other libraries*); the kernel's own RPC layer *cannot be measured here*: this kernel has none.\n\n"


COMMANDS = """**On a machine of your own** (root; 2 to 6 minutes a shard):

```
bench/studies --only rpcstat/volumes           # cycles, stalls, recorders, layers
thalweg rpcstat --interface eth0 --port 2049 --for 60s -o nfs.thw
thalweg rpcstat nfs.thw -o nfs.svg               # or a capture: nfs.pcap
thalweg rpcstat before.pcap after.pcap -o both.html
```

"""


def questions(lines):
    """Rows of the last table."""
    rows = []
    two = kept.runs(lines, "volumes", "two-disks-both-ends")
    if two:
        charges = two[0]["explained"]["charges"]
        rows.append(
            (
                "2001: why does one timeout stop everything for about 1.5 s?",
                "The server's disk stops everything, and the timeout with it: calls are late because the server waits for its disk.",
                f"both ends recorded: {percent(share(charges, 'server'))} of the time the server's, most of it `{charges[0][0]}`",
            )
        )
    if kept.runs(lines, "stalls", "two-stalls"):
        rows.append(("2001: a gap with the queue partly full: whose?", "The server's while replies come, the client's once it is empty.", "what comes next: a reply or a call"))
    if kept.runs(lines, "stalls", "slow-beginning"):
        rows.append(("2001: what are the variations at the start?", "Gaps with the queue full: the server.", "the queue in each gap; the server's syncs, recorded"))
    spinning = kept.runs(lines, "recorders", "spinning")
    if spinning:
        part = percent(kept.middle([share(run["explained"]["charges"], "recorder") for run in spinning]))
        rows.append(("2001: why does nothing complete while requests are sent?", "The recorder had the processor.", f"a recorder that spins: cause `recorder`, {part}"))
    if kept.runs(lines, "layers", "classes"):
        rows.append(("2001: is the RPC layer itself a bottleneck?", "Not in user space: copying and TCP/IP have most. The kernel's RPC layer *not measurable here*.", "`profile` of both ends"))
    return rows
