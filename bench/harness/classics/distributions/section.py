"""The section on distributions and hints."""

from statistics import median

from bench.harness.classics import kept
from bench.harness.classics.distributions.world import DISK_MIB, LINK_MIB, NODES, TYPED
from bench.harness.classics.words import percent, quote, spread, table

MIB = 1 << 20
# Of the local disk, as the study's text has them.
THEIRS = {"stripe-64k": ("55 %", "40 %"), "stripe-fitted": ("75 %", "80 %"), "varstrip-local": ("80 %", "100 %")}
TITLES = {
    "basic": "everything to one server",
    "stripe-64k": "simple_stripe, 64 KiB",
    "stripe-8m": "simple_stripe, 8 MiB",
    "stripe-16m": "simple_stripe, 16 MiB",
    "stripe-fitted": "simple_stripe, strip fitted to each node's part",
    "varstrip-local": "varstrip, each node on its own disk",
}

INTRODUCTION = """## 4. Where is the bottleneck, if the disk reaches half its rate? (2005)

**The study.** Distribution functions and MPI hints were added to PVFS2, so that each file chooses how its bytes are laid out, and the layouts were measured against the raw
disk of each node, checked by `bonnie++`: everything to one server; striped in strips of 64 KB, 8 MB, 16 MB; strips fitted to each node's part; varstrip with
every node on its own disk; caches defeated, and once not. Strips of 64 KB reached 55 % of the disk writing and 40 % reading, and the text says that *the
bottleneck must be elsewhere*; varstrip reached 80 % writing and 100 % reading: *PVFS2 loses performance on writing*. The study ended there.

**Made again.** {nodes} nodes are network namespaces, each with a paced disk of {disk} MiB/s, a link of {link} MiB/s and one I/O server; all nodes write their parts of one file
simultaneously, then, with caches emptied and verified, read them. Then the same with links that are no limit, through mounts, and by MPI jobs of both implementations that pass
the layout as typed hints (`simple_stripe:int64:strip_size=65536`, `varstrip_dist:string:strips=...`). [LAYOUT-BENCH.md](LAYOUT-BENCH.md) has the same with more sizes, patterns, intervals and NFS beside it.

""".format(nodes=NODES, disk=DISK_MIB, link=LINK_MIB)


def _line(lines, shard):
    found = [line for line in lines.values() if line["shard"] == shard]
    return found[0] if found else None


def _points(line):
    """By series and operation."""
    return {(point["series"], point["operation"]): point for point in line["points"]} if line else {}


def text(lines):
    """The section."""
    if not _line(lines, "library"):
        return ""
    return "".join([INTRODUCTION, _set_up(lines), "\n", _figures(lines), "\n", _where(lines), _mount(lines), _typed(lines), COMMANDS])


def _set_up(lines):
    bonnie = _line(lines, "library")["bonnie"] or {}
    rows = [
        ["nodes", "of a cluster, a disk each", f"{NODES} network namespaces, a paced disk each"],
        ["a disk", "checked by `bonnie++`", f"{DISK_MIB} MiB/s; `bonnie++` finds {bonnie.get('write_bytes_per_s', 0) / MIB:.1f} writing"],
        ["a link", "no figure", f"{LINK_MIB} MiB/s both ways, and once no limit"],
        ["a part", "several sizes", "32 MiB, written with its sync"],
        ["caches", "defeated before reading; once not", "emptied, and verified by `cachestat`; once not"],
    ]
    return table(["", "2005", "here"], rows, right=3)


def _rate(point):
    return f"{point['rate_bytes_per_s']['median'] / MIB:.1f}" if point else ""


def _of_local(point):
    return percent(point["of_local"]["median"]) if point else ""


def _cause(point):
    said = point.get("explanation") if point else None
    return f"`{said['cause']}` {percent(said['share'])}" if said else ""


def _figures(lines):
    linked, free = _points(_line(lines, "library")), _points(_line(lines, "no-link"))
    rows = []
    for series, title in TITLES.items():
        theirs = THEIRS.get(series, ("", ""))
        for operation, there in zip(("write", "read"), theirs, strict=True):
            point, fast = linked.get((series, operation)), free.get((series, operation))
            rows.append([title, operation, there, _of_local(point), _rate(point), _cause(point), _of_local(fast), _cause(fast)])
    local, cached = (_rate(linked[(one, "write")]) for one in ("local", "local-cached"))
    read, read_cached = (_rate(linked[(one, "read")]) for one in ("local", "local-cached"))
    said = f"The local file system: {local} MiB/s writing, {read} reading; with caches on {cached} and {read_cached}.\n\n"
    heads = ["layout", "", "of the disk, 2005", "of the disk, here", "MiB/s of a node", "held up by", "of the disk, links no limit", "held up by"]
    return said + table(heads, rows, right=2)


def _where(lines):
    linked, free = _points(_line(lines, "library")), _points(_line(lines, "no-link"))
    one = linked[("stripe-64k", "write")]["explanation"]
    said = f"""**The bottleneck is the link.** With strips of 64 KiB over {NODES} nodes, {NODES - 1} of {NODES} bytes cross a link of {LINK_MIB} MiB/s: at most {LINK_MIB * NODES / (NODES - 1):.1f} MiB/s of a disk of {DISK_MIB}, whatever the
servers do. The explanation of the run says so, and names the disk nowhere:

"""
    said += quote(one["sentence"])
    if free:
        fast = free[("stripe-64k", "write")]
        said += f"\nWith links that are no limit the same layout reaches {_of_local(fast)} of the disk writing and {_of_local(free[('stripe-64k', 'read')])} reading, and the explanation "
        said += f"names `{fast['explanation']['cause']}`. So the control run agrees with the explanation.\n"
    own = linked[("varstrip-local", "write")]
    said += f"\n**What is lost on writing is not in the layout.** Varstrip on each node's own disk reaches {_of_local(own)} of the disk writing here and {_of_local(linked[('varstrip-local', 'read')])} reading, "
    said += f"and what it waits for is the disk (`{own['explanation']['cause']}`, {percent(own['explanation']['share'])}). A layout that puts bytes where they are written costs nothing; where 20 % went in 2005 cannot be seen from here. "
    said += "Strips fitted to the parts reached 75 and 80 % in 2005. A strip does not know who writes it: here every part is on the next node's disk, and all of it crosses a link.\n\n"
    return said


def _mount(lines):
    line = _line(lines, "mount")
    if not line:
        return ""
    points = _points(line)
    rows = [[title, *(f"{_of_local(points.get((series, operation)))}" for operation in ("write", "read"))] for series, title in TITLES.items() if (series, "write") in points]
    return "Through a mount, of the local disk:\n\n" + table(["layout", "write", "read"], rows) + "\n"


def _typed(lines):
    rows = []
    for setting, (mpi, hints) in TYPED.items():
        runs = kept.runs(lines, "typed-hints", setting)
        if runs:
            rates = [spread([median(run[way]) for run in runs], 1 / MIB, 1) for way in ("write", "read")]
            layout = runs[0]["layout"]
            laid = f"{layout['distribution']}, {len(layout['datafiles'])} datafiles"
            rows.append([mpi, " ".join(f"`{hint}`" for hint in hints), laid, *rates])
    if not rows:
        return ""
    said = f"**Typed hints.** Rank r of {NODES} sees the mount of node r, and passes the layout when it opens the file (the pattern is `mpi-io-test`'s: each rank its block). MiB/s of a rank, sync included; reading with caches emptied:\n\n"
    return said + table(["MPI", "hints", "laid out as", "write", "read"], rows, right=3) + "\n"


COMMANDS = """**On a machine of your own** (root; 3 minutes a shard):

```
bench/studies --only distributions/library     # no-link, mount, typed-hints
thalweg bench layout --store store.toml --run-on 'ssh {node}' --sizes 64Mi,1Gi --via library,mount     # on real nodes
```

"""


def questions(lines):
    """Rows of the last table."""
    if not _line(lines, "library"):
        return []
    linked, free = _points(_line(lines, "library")), _points(_line(lines, "no-link"))
    control = f"; with links that are no limit {_of_local(free[('stripe-64k', 'write')])}" if free else ""
    return [
        (
            "2005: striped in 64 KB, the disk reaches about half its rate: the bottleneck must be elsewhere. Where?",
            "In the links: three of four bytes cross one.",
            f"`network.bandwidth` {percent(linked[('stripe-64k', 'write')]['explanation']['share'])} of the time, at {_of_local(linked[('stripe-64k', 'write')])} of the disk{control}",
        ),
        (
            "2005: PVFS2 loses performance on writing. To what?",
            "Not to the layout: the same layout loses nothing here. What PVFS2's server did in 2005 *not measurable here*.",
            f"varstrip on each node's own disk: {_of_local(linked[('varstrip-local', 'write')])} writing, waiting for the disk",
        ),
    ]
