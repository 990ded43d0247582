"""The section on `pvfs2-cp`."""

from bench.harness.classics import kept
from bench.harness.classics.pvfs_cp import world
from bench.harness.classics.words import percent, picture, quote, share, spread, table

INTRODUCTION = """## 1. What are the gaps of `pvfs2-cp`? (2007)

**The study.** A client copied 256 MB into PVFS2 over a link of 2 Gb/s, and MPE and Jumpshot drew its calls. The pictures show 25 transfers of 10 MB and
one of 5.5 MB, each of 1 MB sends of 4.5 ms (1.8 Gb/s); 11 ms from the last send of a transfer to its reply; 17 to 18 ms between one transfer and the next, in
which nothing is sent; 1.0 Gb/s over all. Its authors asked: *are the gaps due to reading the file or something else? Are the delays at the end due to
the server's processing?* The profile was of one end, and could not answer.

**Made again.** `thalweg cp` into a store of one server, with one request in flight, as in `pvfs2-cp`; recorded at both ends. The disks are the
testbed's, with known rates: the source's reads 10 MiB in 17.5 ms, the server's finishes some time after the last byte (2007: 11 ms; the table has the measured time). So the
true answer is known, and the explanation is compared with it. Then each cause is removed in turn.

"""

AGREES = """**The shape agrees** in the number of transfers, the rate of a burst, the time of a read, and the rate over all. **It differs** in the gaps: those of 2007 are counted from the reply on; on the wire the
server's finish and the client's read are one gap, which is counted here. The server's finish varies by some milliseconds from run to run on this machine. If the
server takes its bytes in parts, a burst has pauses of less than a millisecond, and counts as several. The server's disk is nearly as slow as the link, so the last byte of most requests waits for the disk and not for the wire: the explanation
charges most of the burst to the disk, and a faster link would change little.

"""


def text(lines):
    """The section."""
    if not kept.runs(lines, "copy", "as-2007-kernel"):
        return ""
    return "".join([INTRODUCTION, _set_up(), "\n", _figures(lines), "\n", _pictures(), "\n", AGREES, _swapped(lines), _answers(lines), _overlap(lines), COMMANDS])


def _set_up():
    rows = [
        ["program", "`pvfs2-cp`", "`thalweg cp --requests 1 --request 10Mi --buffer 1Mi --streams 1`"],
        ["bytes", "256 MB", "256 MiB"],
        ["a request; a send", "10 MB; 1 MB", "10 MiB; 1 MiB"],
        ["link", "2 Gb/s", "2 Gb/s: virtual Ethernet devices between network namespaces, a token bucket"],
        ["source", "a disk, not described", "a paced disk, cold (`cachestat` verifies)"],
        ["server's disk", "not described", "a paced disk, mounted `sync`"],
        ["recorder", "MPE in the client", "the kernel's recorder at both ends (`thalweg record`); the store's own (`--record`)"],
    ]
    return table(["", "2007", "here"], rows, right=3)


def _gaps(runs):
    return [run["explained"]["channel"]["gaps"] for run in runs if run["explained"]["channel"]]


def _part(runs, *causes):
    """The median length of what causes have of a gap, by run."""
    found = []
    for gaps in _gaps(runs):
        found.append(sum(part[2] for part in gaps["parts"] if part[0] in causes and 2 * part[1] >= gaps["count"]))
    return found


def _figures(lines):
    plain, kernel, own = (kept.runs(lines, "copy", name) for name in ("as-2007", "as-2007-kernel", "as-2007-own"))
    bits = [world.SIZE * 8 / run["wall_s"] for run in plain]

    def of(runs):
        channels = [run["explained"]["channel"] for run in runs]
        return [
            spread([one["bursts"] for one in channels], digits=0),
            spread([(one["burst_bytes_per_s"] or 0) * 8 or None for one in channels], 1e-9, unit=" Gb/s"),
            spread([gaps["median_s"] for gaps in _gaps(runs)], 1e3, 1, " ms"),
            spread(_part(runs, "client.read"), 1e3, 1, " ms"),
            spread(_part(runs, "server.write", "server.cpu", "server.sync"), 1e3, 1, " ms"),
        ]

    heads = ["bursts of data", "rate in a burst", "a gap on the wire, median", "of it the source's read", "of it the server's finish"]
    theirs = ["26 transfers", "1.8 Gb/s", "17 to 18 ms + 11 ms", "?", "?"]
    rows = [[name, there, kernel_says, own_says] for name, there, kernel_says, own_says in zip(heads, theirs, of(kernel), of(own), strict=True)]
    rows.insert(0, ["time, not recorded", "2.05 s", spread([run["wall_s"] for run in plain], unit=" s"), ""])
    rows.insert(1, ["rate over all", "1.0 Gb/s", spread(bits, 1e-9, unit=" Gb/s"), ""])
    rows.insert(2, ["time, recorded", "", spread([run["wall_s"] for run in kernel], unit=" s"), spread([run["wall_s"] for run in own], unit=" s")])
    return table(["", "2007", "here, by the kernel's recorder", "here, by the store's own"], rows)


def _pictures():
    return "\n".join(
        [
            picture("pvfs-cp-as-2007", "The whole copy: 26 bursts, and between any two a gap, shaded in the colour of most of it (blue: the source is read; orange: the server writes)"),
            picture("pvfs-cp-as-2007-request", "One request: after the last send the server still writes (orange), then the client reads the next 10 MiB (blue); the wire is idle in both"),
            picture("pvfs-cp-as-2007-beginning", "Its beginning: the read, the first sends, the server's first writes"),
        ]
    )


SWAPS = {
    "as-2007": "as in 2007",
    "source-in-memory": "the source in memory",
    "server-in-memory": "the server's disk as fast as memory",
    "server-slow": f"the source in memory, the server's disk {world.SLOWER} × as slow",
    "nothing-slow": "neither disk slow",
}


def _swapped(lines):
    rows = []
    for name, title in SWAPS.items():
        plain, recorded = kept.runs(lines, "copy", name), kept.runs(lines, "copy", f"{name}-kernel")
        row = [title, spread([run["wall_s"] for run in plain], unit=" s")]
        if recorded:
            charges = [run["explained"]["charges"] for run in recorded]
            gaps = [one["median_s"] for one in _gaps(recorded)]
            row += [spread(gaps, 1e3, 1, " ms")]
            row += [percent(kept.middle([share(one, *causes) for one in charges])) for causes in (["client.read"], ["server.write", "server.sync"], ["network"])]
        else:
            row += ["", "", "", ""]
        rows.append(row)
    heads = ["", "time", "a gap, median", "`client.read`", "`server.write`", "`network`"]
    pictures = [
        picture("pvfs-cp-source-in-memory", "The source in memory: what is left of the gaps is the server's"),
        picture("pvfs-cp-server-in-memory", "The server's disk as fast as memory: every gap is blue, the source's"),
        picture("pvfs-cp-server-slow", "The source in memory, the server's disk slow: every gap is orange, the server's, and it writes all the time"),
    ]
    return "**With each cause taken away**, the same copy, and the explanation follows:\n\n" + table(heads, rows) + "\n" + "\n".join(pictures) + "\n"


def _answers(lines):
    one = kept.runs(lines, "copy", "as-2007-kernel")[0]
    return "**The explanation of one of the runs**, as it stands:\n\n" + quote(one["explained"]["text"]) + "\n"


def _predicted(lines):
    """Each recorded run's prediction for what was then done, as a share of the time before."""
    found = []
    for run in kept.runs(lines, "copy", "as-2007-own"):
        for what in run["explained"]["what_if"]:
            if what["id"].startswith(("overlap", "requests")):
                found.append(what["predicted_wall_s"] / run["explained"]["wall_s"])
                break
    return found


def _overlap(lines):
    before, after = (kept.middle([run["wall_s"] for run in kept.runs(lines, "copy", name)]) for name in ("as-2007", "overlapped"))
    defaults = kept.middle([run["wall_s"] for run in kept.runs(lines, "copy", "defaults")])
    predicted = kept.middle(_predicted(lines))
    said = f"**What overlapping gives.** With two requests in flight, so that one is read while the other is sent: {before:.2f} s became {after:.2f} s ({before / after:.2f} ×). "
    if predicted:
        said += f"The explanation of the serial copy predicted {predicted * before:.2f} s, {abs(predicted * before / after - 1):.0%} off. ".replace("%", " %")
    said += f"`thalweg cp` as it comes, without a flag: {defaults:.2f} s.\n\n"
    return said + picture("pvfs-cp-overlapped", "Two requests in flight: the wire is busy but for the server's disk") + "\n"


COMMANDS = """**On a machine of your own** (root; 3 minutes):

```
bench/studies --only pvfs-cp
thalweg record -o run.thw -- pvfs2-cp A B        # or cp, nfs-cp, globus-url-copy: any program
thalweg explain run.thw
thalweg report run.thw -o run.svg --from 1s --to 1.2s
```

"""


def questions(lines):
    """Rows of the last table."""
    kernel = kept.runs(lines, "copy", "as-2007-kernel")
    if not kernel:
        return []
    read, finish = (spread(_part(kernel, *causes), 1e3, 0) for causes in (["client.read"], ["server.write", "server.cpu", "server.sync"]))
    return [
        (
            "2007: are the gaps due to reading the file or something else?",
            f"To both: {read} ms of a gap is the source's disk, {finish} ms the server finishing the request before.",
            "both ends recorded; taking either away takes its part of the gap away",
        ),
        (
            "2007: are the delays at the end due to the server's processing?",
            "To its disk: the server's thread waits in `write(2)`; it copies for a tenth of that time.",
            "`server.write` against `server.cpu` within gaps",
        ),
    ]
