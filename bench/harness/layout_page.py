"""docs/results/LAYOUT-BENCH.md, from what is kept of the layout study."""

import os

from bench.harness.studies import DOCS
from testbed.results import write_text

PAGE = os.path.join(DOCS, "LAYOUT-BENCH.md")

PREFACE = """# What each layout gives

**Asked.** Which distribution gives which share of the disks and links it runs over, for a parallel job that writes one file from every node? Bars: striping reaches
0.85 to 1.10 of what disks and links allow, and a part on its writer's own disk reaches 0.95 of that disk.

**Found.** {kept}. Striping over four nodes is limited by the links, since three of four bytes cross one; data placed on its writer's node runs at the speed of
its disk.

**Missed, and why.** {missed}

**When.** {measured}; root, `make bench-layout`. The nodes are network namespaces of one machine, each with a disk and a link of known rates, so the possible rate is known.
`thalweg bench layout` does the same on real hosts:

```
thalweg bench layout --store store.toml --run-on 'ssh {node}' --sizes 64Mi,256Mi,1Gi --repeat 5 --via library,mount
```

**Procedure.** All nodes write their parts of one file simultaneously and are timed: the writing alone, and with the sync that makes
the bytes durable. Then every server's datafiles are dropped from the page cache, which the kernel confirms (`cachestat`), and all nodes read their
parts simultaneously. Every page carries its own offset, which is checked when it is read. All series are measured once in each repetition, in
changing order; figures are medians with bootstrap 95 % intervals, ratios to the local disk are taken node by node within a
repetition. Every time is in `raw.jsonl`; every run through the client library is recorded at both ends and explained, and the cause
stands beside its figure (in the pictures: point at a mark).

**The series.** *local file system*: a file of the node's own disk, which is the ceiling; *caches on*: the same without waiting for
the disk. *basic_dist*: everything on one server. *simple_stripe* over all nodes, with strips of 64 KiB, 8 MiB, 16 MiB, and as long as
a part (then a part is on one server, here the neighbour's: what a layout gives that does not know who writes). *varstrip_dist*: each
part on its writer's own disk. *twod_stripe*: in two groups. *NFS*: a file for each node on one NFS-Ganesha server, by a client
that keeps 8 calls of 1 MiB in flight.

**What disks and links allow** is arithmetic: all nodes begin at once, those that share a disk or link get a fair share, nothing else
costs anything. Striped over n nodes, (n - 1) / n of each part crosses a link: {prediction}.

"""

MAPPING = """
## How the patterns map

| pattern | known as | transfers of rank r of n |
|---|---|---|
| `part`, `ior-segmented` | IOR `-b PART -t T -s 1` | one block, at r × PART |
| `ior-strided` | IOR `-b T -t T -s PART/T` | transfer i at (i × n + r) × T |
| `ior-random` | IOR `-b PART -t T -s 1 -z` | one block, its transfers shuffled |
| `ior-file-per-process` | IOR `-b PART -t T -s 1 -F` | a file of its own |
| `beff-scatter` | `b_eff_io` type 0, strided collective | pieces of T/16; piece i at (i × n + r) × T/16 |
| `beff-shared` | type 1, shared file pointer | in the ranks' order: transfer i at (i × n + r) × T |
| `beff-separate` | type 2, separate files | a file of its own |
| `beff-segmented` | type 3, segmented | one block, at r × PART |
| `beff-segmented-collective` | type 4, segmented collective | the same |

`b_eff_io` chooses chunk sizes by the machine's memory and runs each pattern for a time; here a pattern moves a stated number of bytes in
transfers of a stated size. Its means are kept: over the types, scattering counts twice; over first writing, rewriting and reading,
a quarter, a quarter and a half. Collective calls and shared pointers are MPI-IO's; the client library and a mount make the same
transfers at the same offsets, each node for itself.
"""


def _preface(line):
    """The text above the pictures, with how many bars the run kept."""
    kept, missed = line["text"].count("| kept |"), line["text"].count("| **missed** |")
    words = {"prediction": line["prediction"], "measured": line["measured"][:10], "kept": f"{kept} of {kept + missed} bars are kept"}
    words["missed"] = f"{missed} bars, in the table below." if missed else "None."
    text = PREFACE
    for name, value in words.items():
        text = text.replace("{" + name + "}", value)
    return text


def write(studies, path=None):
    """The page, beside the studies' pictures unless a path is given; its path."""
    line, pictures = studies.get("layout")
    shown = "".join(f"![{name.replace('-', ' ')}](layout/{name}.svg)\n\n" for name in pictures)
    page = path or os.path.join(studies.docs, os.path.basename(PAGE))
    write_text(page, _preface(line) + shown + line["text"].rstrip() + "\n" + MAPPING)
    return page
