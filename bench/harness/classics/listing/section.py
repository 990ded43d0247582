"""The section on listing directories."""

from bench.harness.classics import kept
from bench.harness.classics.listing.world import FILES
from bench.harness.classics.words import percent, table

METHODS = {
    "none": "one file at a time",
    "statahead": "statahead",
    "glimpse-ahead": "statahead and glimpse-ahead",
    "metadata": "sizes from the metadata service",
    "thalweg ls -lU": "`thalweg ls -lU`, the whole command",
    "ls -Ul on the mount": "`ls -Ul` on the mount",
}
DATAFILES = (0, 1, 4, 8, 16, 32)

INTRODUCTION = """## 5. What does a listing cost per file, and per stripe? (2011)

**The study.** `ls -Ul` in Lustre, one client with 24 cores, 4 object servers with 8 targets each, at 0 to 32 stripes a file: with statahead, and with asynchronous
glimpses of sizes besides. 400,000 files of 32 stripes were listed more than 100 times as fast as by an unpatched 2.x. The discussion on the list asked for
missing figures: a comparison with the synchronous case hides the remaining cost of each stripe, so *compare the slope, with and without each mechanism*; *how many glimpses
are in flight*; and *what limits at high stripe counts* (client lock state and the servers' processors were suspected).

**Made again.** A store of 4 servers with 8 targets each, 1 ms away over the packet relay; every file has one byte on each of its datafiles; the mechanisms take turns. A straight
line through the times of 1 to 32 datafiles separates the cost of a file from the cost of each datafile. [LS-BENCH.md](LS-BENCH.md) has the same for 100,000 files, four round
trips, other systems beside it.

"""


def _line(lines, shard):
    found = [line for line in lines.values() if line["shard"] == shard]
    return found[0] if found else None


def text(lines):
    """The section."""
    if not _line(lines, "grid-12000"):
        return ""
    return "".join([INTRODUCTION, _set_up(), "\n", _times(lines), "\n", _slopes(lines), "\n", _flight(lines), _items(lines), _limits(lines), COMMANDS])


def _set_up():
    rows = [
        ["client", "24 cores", "2 processors, which the servers share"],
        ["servers × targets", "4 × 8", "4 × 8"],
        ["files", "up to 400,000 × 32 stripes", "12,000 × 0 to 32 datafiles; 400,000 × 1 (12.8 million datafiles are more inodes than there are here)"],
        ["round trip", "the site's network", "1 ms, by the packet relay"],
        ["kept from helping", "not described", "another client than the one that wrote; the mount made anew"],
    ]
    return table(["", "2011", "here"], rows, right=3)


def _points(line):
    """By method and datafiles."""
    return {(point["method"], point["datafiles"]): point for point in line["points"]}


def _us(figure):
    if figure is None:
        return ""
    digits = 0 if figure["median"] >= 100 else 2
    return f"{figure['median']:,.{digits}f}"


def _times(lines):
    points = _points(_line(lines, "grid-12000"))
    rows = []
    for method, title in METHODS.items():
        row = [_us(points[(method, n)]["per_file_us"]) if (method, n) in points else "" for n in DATAFILES]
        if any(row):
            rows.append([title, *row])
    heads = ["µs a file, at datafiles of", *map(str, DATAFILES)]
    gains = [points[("none", 32)]["per_file_us"]["median"] / points[(method, 32)]["per_file_us"]["median"] for method in ("statahead", "glimpse-ahead", "metadata")]
    said = f"\nAt 32 datafiles: statahead is {gains[0]:.1f} × as fast as one file at a time, with glimpse-ahead {gains[1]:,.0f} ×, with sizes from the metadata service {gains[2]:,.0f} × (2011: more than 100 ×).\n"
    return table(heads, rows) + said


def _slopes(lines):
    rows = []
    for trend in _line(lines, "grid-12000")["trends"]:
        fit, cpu = trend.get("fit"), trend.get("cpu")
        if not fit or trend["method"] not in METHODS:
            continue
        each = fit["slope"]
        slope = f"{each['median']:.2f} ({each['low']:.2f} to {each['high']:.2f})"
        work = f"{cpu['slope']['median']:.2f}" if cpu else ""
        low, high = (trend.get(key) for key in ("low_us", "high_us"))
        rows.append([METHODS[trend["method"]], _us(fit["intercept"]), slope, work, f"{low['median']:.2f}" if low else "", f"{high['median']:.2f}" if high else ""])
    heads = ["", "a file, µs", "each datafile, µs (95 %)", "of it processors' work", "4 → 8", "16 → 32"]
    return "**The slope that the thread asked for**, with and without each mechanism:\n\n" + table(heads, rows)


def _flight(lines):
    points = _points(_line(lines, "grid-12000"))
    ahead, none = points[("glimpse-ahead", 32)], points[("none", 32)]
    files = _line(lines, "grid-12000")["scale"]["files"]
    return f"""
**Glimpses in flight.** Not one message for each object, as in 2011 (window × targets at most), but one for many files: {ahead['requests_per_file'] * files:,.0f} requests for {files:,} files of 32 datafiles
({32 * files:,} sizes), in a chain of {ahead['round_trips']:.0f} round trips; one file at a time asks {none['requests_per_file']:.1f} requests for each. The window is then no limit, and a datafile's part is the bytes and work of its size.

"""


def _items(lines):
    line = _line(lines, "items")
    if not line:
        return ""
    rows = []
    for point in line["points"]:
        if point["files"] >= 100_000 and point["method"] in METHODS and point["location"] != "no link":
            rows.append([METHODS[point["method"]], f"{point['files']:,} × {point['datafiles']}", _us(point["per_file_us"]), f"{point['per_file_us']['median'] * point['files'] / 1e6:,.2f} s"])
    said = "**400,000 files**, as many as the study's, of 1 datafile (one file at a time is measured on its first files):\n\n"
    grid = {trend["method"]: trend["fit"] for trend in _line(lines, "grid-12000")["trends"] if trend.get("fit")}
    modelled = []
    for method in ("none", "glimpse-ahead", "metadata"):
        fit = grid.get(method)
        if fit:
            modelled.append(f"{METHODS[method]} {(fit['intercept']['median'] + 32 * fit['slope']['median']) * 0.4:,.1f} s")
    return said + table(["", "files × datafiles", "µs a file", "in all"], rows) + f"\nBy the straight lines above, *not measured*, 400,000 files of 32 datafiles: {', '.join(modelled)}.\n\n"


def _limits(lines):
    rows = []
    for setting, title in (("1-glimpse-ahead", "1 datafile, glimpse-ahead"), ("32-glimpse-ahead", "32 datafiles, glimpse-ahead"), ("1-metadata", "1, sizes from the metadata service"), ("32-metadata", "32, sizes from the metadata service")):
        runs = kept.runs(lines, "profile", setting)
        if not runs:
            return ""
        classes = {}
        for run in runs:
            for one in run["profile"]["hosts"][0]["classes"]:
                classes.setdefault(one["class"], []).append(one["seconds"] / run["listings"] / FILES * 1e6)
        means = {name: kept.middle(values) for name, values in classes.items()}
        busy = sum(value for name, value in means.items() if name != "idle")
        rows.append([title, f"{busy:.2f}", *(f"{means.get(name, 0):.2f}" for name in ("program", "libc", "copy", "net", "sched", "fs", "mm"))])
    heads = ["datafiles, mechanism", "processors, µs a file", "program", "C library", "memory copy", "TCP/IP", "scheduler", "page cache, file system", "memory"]
    return f"""**What limits at high stripe counts**: processors' work, by `thalweg profile` of client and servers together (loopback, {FILES:,} files):

{table(heads, rows)}
"""


COMMANDS = """**On a machine of your own** (root; 4 minutes, 10 for 400,000 files):

```
bench/studies --only listing/grid-12000        # items, profile
thalweg bench ls --only grid --files 100000      # this machine alone, no root
thalweg profile --also PID-OF-SERVER -- thalweg ls -lU --mode glimpse-ahead thal://HOST:PORT/dir
```

"""


def questions(lines):
    """Rows of the last table."""
    if not _line(lines, "grid-12000"):
        return []
    trends = {trend["method"]: trend["fit"] for trend in _line(lines, "grid-12000")["trends"] if trend.get("fit")}
    slopes = ", ".join(f"{METHODS[name]} {trends[name]['slope']['median']:.2f} µs" for name in ("none", "glimpse-ahead", "metadata") if name in trends)
    points = _points(_line(lines, "grid-12000"))
    ahead = points[("glimpse-ahead", 32)]
    work = (ahead["client_cpu_us"]["median"] + ahead["server_cpu_us"]["median"]) / 2
    return [
        ("2011: what does each stripe still cost, with each mechanism by itself?", slopes, "straight lines through 1 to 32 datafiles"),
        (
            "2011: how many glimpses are in flight, and does the window limit?",
            "Some thousands of sizes in one message; the window does not limit.",
            f"{ahead['requests_per_file']:.4f} requests a file, {ahead['round_trips']:.0f} round trips in all",
        ),
        (
            "2011: what limits at high stripe counts?",
            f"Processors: {percent(min(work / ahead['per_file_us']['median'], 1.0))} of the time at 32 datafiles is work of client and servers on both.",
            "processor time of each process; `profile`",
        ),
    ]
