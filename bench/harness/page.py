"""docs/results/BENCH.md from the results: what was asked, what was reached, on which machine, every case's table."""

import os

from bench.harness import one_more
from bench.harness.cases import CASES
from testbed.paths import REPOSITORY
from testbed.results import write_text

PAGE = os.path.join(REPOSITORY, "docs", "results", "BENCH.md")

TITLE = "# How fast it is, and beside what\n"

ASKED = """**Asked.** How fast is a copy into and out of the store beside a raw TCP stream, GridFTP and NFS on the same machine? What does recording cost a
program that is recorded, and one that is not? What do encryption, lots, strangers and one more server cost? How fast is `explain` itself? Each
question has a bar, set before it was measured.
"""

MISSED = """**Missed, and why.**

- *Copies out, and copies of 256 MiB, beside the raw stream and GridFTP.* The store checksums every byte at both ends. The raw stream that computes
  the same checksum is 1.1 to 1.4 times as fast: it has no names, connects to no metadata service and verifies no credential, all of which the store's time includes. The GridFTP copies have no checksum.
- *Recording at 0.99 of the speed.* Loops of small calls and `cp` keep 0.98. A store copy recorded at both ends keeps 0.88 to 0.94: each request is
  an event at two ends. Pipelines that switch 100,000 times a second keep 0.75 to 0.90, since each switch is a record; [MEASURED.md](MEASURED.md#what-recording-costs)
  has where that time goes and what was tried.
- *A program that is not recorded, beside one that is,* keeps 0.89 where it does nothing but switch: the recorder's program runs at every switch of the machine.
- *Small files through the mount*: each file is six requests of the kernel, one after the other ([MEASURED.md](MEASURED.md#the-mount)).
- *A flood of strangers* leaves a copy 0.3 of its rate: each stranger costs the server a thread on two processors that the copy needs too.
- *Explaining* reaches 3.9 of 5 million spans a second: the walk is one thread.
"""

INTRODUCTION = """## How it is measured

`bench/run --page` makes this page from [bench/results.jsonl](../../bench/results.jsonl), one line for each case.

**What is compared.** Whole commands, from before the process starts until it has ended; start-up counts for every command.
Client and servers share one machine and speak TCP over its loopback device. The source is in the page cache (checked with
cachestat before each run), the target does not exist, and all files are on one file system; `sync` runs untimed before
each run. Before the first round the bytes of every command's copy are compared with the source, after each round the size.

**How.** A round runs every command once, in a new random order; a figure is the median over ten rounds or more
(fewer in a quick run). A ratio is taken round by round (how many times the rate of the other); its median is given with its bootstrap 95 % interval.
The cost of recording is measured in rounds of four parts of 2 s (alone, recorded, recorded, alone), each of many short runs, until the interval is within 1 %
or 150 s have passed. The fastest tenth of the runs at each position is compared, since a host's other machines only add to a time; the interval is the bootstrap's, over whole rounds
(`bench/harness/rounds.py`). The median of the rounds with all their runs is given beside it.
For the raw stream and GridFTP the fastest of several settings is chosen first, in the same run, and then measured afresh.

**Beside what.**
- *Raw stream*: `bench/raw` sends the same bytes from the same file over loopback into files, without a protocol; with CRC-32C at both ends,
  and bare. The fastest of its ways (sendfile, splice, mmap, read and write; connections; unit) is the ceiling.
- *GridFTP*: `globus-url-copy` and `globus-gridftp-server`, blocks of 1 MiB, 1 and 4 streams.
- *nfs-cp*: libnfs's copy against NFS-Ganesha, NFSv3. Copying in, `nfs-cp` commits before it ends, as `--sync` does: the row of the
  same durability is the one under "--sync"; the bar is on the copy as each program makes it by default.
- *OrangeFS* is not packaged and is not run here; measured elsewhere on a machine of this kind, `pvfs2-cp` into 4 servers reached
  0.25 to 0.3 of the bare raw stream.

**Encryption, strangers, lots.** Cases *in memory* keep all files in memory and use a network of their own, in which servers have an address beyond loopback
on the loopback device: a store encrypts as between machines. Lots and floods are measured in clear (`--plain`). A flood is one process
(`bench/loops/strangers`) that connects to all servers of the store in turn, as fast as it can, and sends what no client sends, or nothing; the flood shares the processors,
so the same flood against another program is measured beside it. A handshake lasts from a connected socket until the client may send.

**Checksums at rest.** Cases *with checksums at rest and without* do the same work on two stores in turn: one as it is, and one whose targets are of the format
of earlier releases, which has none. Overwrites and appends are those of a Python loop on a mount, which ends with an fsync, as `dd` does (`conv=fsync`).

**One more server.** Twenty situations, each with N servers and with N + 1 in turn, N from 1 to 5, all files in memory. *A slow target*: disks of
100 MiB/s (`up --emulate`), the added one of 25. *An imbalance*: half of the bytes on the first server, for any number of servers. *A busy client*: on one
processor, beside four busy loops. *Many to one*: four clients of one machine read from all servers at once, each server over a link of 1 Gb/s, through
one port of 1 Gb/s that holds 250 KB. The bar: the interval of the ratio of rates reaches 1 and does not begin below 0.90, or `thalweg explain` of
three recordings of N + 1 servers, both ends, names first in each of them what was built in: cause, server and device. A program checks the answers.

With `--sync`, commands that cannot promise durability are followed by `sync FILE`, inside the timed command.
"""


def write(table, path=PAGE):
    """Write the page."""
    write_text(path, markdown(table))


def markdown(table):
    """The whole page."""
    lines = table.all()
    documents = {case.name: lines.get(case.name) for case in CASES}
    parts = [TITLE, ASKED, _found(documents), MISSED, *_summary(documents), INTRODUCTION, *_machine(documents), "## Every case\n"]
    for case in CASES:
        parts += _case(case, documents[case.name])
    return "\n".join(parts).rstrip() + "\n"


def _found(documents):
    """How many bars were met, with which build, on which days."""
    known = [document for document in documents.values() if document]
    if not known:
        return "**Found.** Nothing has been measured yet: `make bench`.\n"
    bars = [bar for document in known if document["state"] == "done" for bar in document["bars"] if bar["wanted"]]
    undecided = sum(bool(bar.get("undecided")) for bar in bars)
    met = sum(bar["met"] and not bar.get("undecided") for bar in bars)
    left_out = sum(document["state"] != "done" for document in known)
    builds = sorted({document["build"]["revision"] for document in known if document.get("build")})
    days = sorted({document["started"][:10] for document in known if document.get("started")})
    when = f"Build {', '.join(builds)}, {' to '.join(dict.fromkeys((days[0], days[-1])))}." if days else ""
    return f"**Found.** {met} of {len(bars)} bars are met, {len(bars) - met - undecided} are missed, {undecided} are undecided; {left_out} cases could not run. {when}\n"


def _machine(documents):
    """The machine of the runs; where files come from different machines or builds, the page says so."""
    known = [document for document in documents.values() if document]
    machines = []
    for document in known:
        if document["machine"] not in machines:
            machines.append(document["machine"])
    lines = ["## Machine\n"]
    if not machines:
        lines.append("Nothing has been measured yet: `make bench`.\n")
    if len(machines) > 1:
        lines.append(f"**The results come from {len(machines)} different machines.**\n")
    for machine in machines:
        told = dict(machine)
        told["memory"] = f"{told.pop('memory_bytes') / (1 << 30):.1f} GiB"
        lines += ["| | |", "|---|---|"]
        lines += [f"| {key.replace('_', ' ')} | {value} |" for key, value in told.items()]
        lines.append("")
    builds = sorted({document["build"]["revision"] for document in known if document.get("build")})
    if builds:
        lines.append(f"Build: {', '.join(builds)}. Client and servers share all cores.\n")
    busy = [document["busy_before"] for document in known if document.get("busy_before") is not None]
    if busy:
        lines.append(f"The machine was at most {max(busy):.0%} busy with other things when a case began.\n")
    return lines


def _summary(documents):
    lines = ["## What was asked, and what was reached\n"]
    lines += ["| case | figure | asked | median | 95 % interval | |", "|---|---|---|---|---|---|"]
    for case in CASES:
        document = documents[case.name]
        if document is None or document["state"] != "done":
            reason = document["reason"] if document else "not measured"
            lines.append(f"| {case.title} | | | | | **{state_word(document)}**: {reason} |")
            continue
        for bar in document["bars"]:
            if bar["wanted"]:
                lines.append(_bar_line(case.title, bar))
        for missing in document.get("absent", []):
            lines.append(f"| {case.title} | {missing['label']} | | | | **NOT RUN**: {missing['reason']} |")
    lines.append("")
    return lines


def _bar_line(title, bar):
    word = "met" if bar["met"] else ("below the aim" if bar["aim"] else "**missed**")
    word = "undecided" if bar.get("undecided") else word
    if "word" in bar:
        needed = [] if bar["word"] in one_more.NOT_SLOWER else ["; ".join(bar["said"]) or "nothing said"]
        word = ": ".join([word, bar["word"], *needed])
    asked = f"aim {bar['wanted']}" if bar["aim"] else bar["wanted"]
    median, low, high = (figure(bar[key], bar.get("places", 2)) for key in ("median", "low", "high"))
    return f"| {title} | {bar['what']} | {asked} | {median} | {low} – {high} | {word} |"


def _case(case, document):
    lines = [f"### {case.title}\n"]
    if document is None or document["state"] != "done":
        return [*lines, f"{state_word(document)}: {document['reason'] if document else 'not measured'}.\n"]
    cpu = document.get("cpu")
    rounds = f"{document['rounds']} rounds"
    steal = f", {cpu['steal']:.1%} of the processors kept by the hypervisor" if cpu else ""
    lines.append(f"{rounds}{steal}.\n")
    lines += ["| command | median | rate | client CPU | ratio of rates, median (95 %) |", "|---|---|---|---|---|"]
    ratios = {bar["to"]: bar for bar in document["bars"]}
    amount = document["amount"]
    for subject in document["subjects"]:
        bar = ratios.get(subject["name"])
        ratio = f"{figure(bar['median'])} ({figure(bar['low'])} – {figure(bar['high'])})" if bar else ""
        if subject["name"] == document["reference"]:
            ratio = "is divided by the others" if len(document["subjects"]) > 1 else ""
        wall = f"{subject['wall_s']['median'] * 1000:,.0f} ms"
        speed = rate(subject["rate_per_s"]["median"], amount["unit"])
        lines.append(f"| {subject['label']} | {wall} | {speed} | {subject['cpu_s'] * 1000:,.0f} ms | {ratio} |")
    for missing in document.get("absent", []):
        lines.append(f"| {missing['label']} | NOT RUN | | | {missing['reason']} |")
    lines.append("")
    for bar in document["bars"]:
        if bar["to"] is None:
            median, low, high = (figure(bar[key], bar.get("places", 2)) for key in ("median", "low", "high"))
            lines.append(f"{bar['what']}: {median} ({low} – {high}).\n")
    return lines


def state_word(document):
    """How a case that has no figures is named."""
    return "FAILED" if document and document["state"] == "failed" else "NOT RUN"


def figure(value, places=2):
    """Ratios with two places or more, counts in thousands."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.{places}f}"


def rate(value, unit):
    """A rate with its unit."""
    if unit == "bytes":
        return f"{value / (1 << 30):.2f} GiB/s"
    return f"{value / 1e6:.2f} M {unit}/s" if value >= 1e6 else f"{value:,.0f} {unit}/s"
