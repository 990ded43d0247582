"""The section on GridFTP and NeST: what STUDY-2004.md has at length."""

from collections import Counter

from bench.harness.classics.words import table
from bench.harness.study2004 import conclusions, kept, page

INTRODUCTION = """## 2. Where does a server's processor time go? (2004)

**The study.** OProfile split the processor time of a GridFTP and of a NeST server into classes (idle, Ethernet driver, interrupts, libc, program, IDE, file I/O, rest of the kernel), reading from them and
writing to them; then rate and load against block size, TCP buffer, parallel streams and concurrent transfers. It found that network writes cost more than reads, that
disk and network did not overlap with large blocks, that lots cost NeST 30 % of its write rate, and that its authors would rather have all this *online and tuned by itself*.

**Made again** with globus-gridftp-server and our own store, 16 shards of `thalweg sweep`, with intervals and with the explanation's cause at each point. [STUDY-2004.md](STUDY-2004.md) has
tables, curves and reasons; in short:

"""

SET_UP = [
    ["servers", "GridFTP, NeST", "globus-gridftp-server 13, our store in the place of NeST, which is no longer available"],
    ["network", "LAN; WAN of 10 ms", "network namespaces: as fast as the processors, 1 Gb/s, 400 Mb/s at 10 ms"],
    ["profiler", "OProfile", "`thalweg profile`, held against `perf`"],
    ["hardware counters", "level-2 data-TLB misses", "none in this virtual machine: *not measurable here*"],
]

END = """
**Tuned by itself.** The authors' next step is [`thalweg tune`](../TUNE.md), which follows the causes of each run and needs about a dozen runs.

**On a machine of your own** (root; 1 to 8 minutes a shard):

```
bench/studies --only gridftp/overlap           # --list names the others
thalweg profile --port 2811 --for 30s
thalweg sweep --vary streams=1,2,4,8 -- globus-url-copy -p {streams} file:///A ftp://HOST/B
```

"""


def _found():
    return list(conclusions.verdicts(kept.table().all()))


def _word(found):
    """What became of a conclusion."""
    return "not measurable here" if "cannot" in found.verdict else found.verdict


def text(_lines):
    """The section."""
    rows = [[one.claim, _word(one)] for one in _found()]
    return INTRODUCTION + table(["", "2004", "here"], SET_UP, right=3) + "\n" + table(["conclusion of 2004", "today"], rows, right=2) + "\n" + page.lots(kept.table().all(), 3) + page.profiles(3) + END


def questions(_lines):
    """Rows of the last table."""
    found = _found()
    many = Counter(map(_word, found))
    said = ", ".join(f"{count} {verdict.strip('*')}" for verdict, count in many.most_common())
    overlap = next((one for one in found if "overlap" in one.claim), None)
    return [
        ("2004: do its conclusions hold on today's machines?", f"Of {len(found)}: {said}.", "each with its interval and the cause at each point"),
        ("2004: why are reads with large blocks slower?", "Disk and network take turns: with 16 MiB blocks the server's read is waited for, then the network.", overlap.why if overlap else ""),
        ("2004: what do larger pages give (TLB misses)?", "*Not measurable here*.", "this machine has no hardware counters"),
        ("2004: can it be tuned online, by itself?", "Yes: `thalweg tune`, and `thalweg cp --tune` while it copies.", "[TUNE.md](../TUNE.md)"),
    ]
