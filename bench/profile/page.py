"""docs/results/PROFILE.md, from the results alone."""

import os

from testbed.paths import REPOSITORY
from testbed.results import RAW, Results, write_text

SCHEMA = "thalweg.bench-profile/1"
RESULTS = os.path.join(REPOSITORY, "bench", "profile", "results.jsonl")
PAGE = os.path.join(REPOSITORY, "docs", "results", "PROFILE.md")
PREFACE = """# How right a profile is, and what it costs

**Asked.** Do the classes of `thalweg profile` agree with `perf` and with a program that counts its own time, within 2 points? Does a profile cost at most 1 % of the processors' time,
and lose no sample?

**Found.** All seven loads agree with `perf` within 0.8 points. Six of seven parts of the counting program agree within 2 points. No sample was lost.

**Missed, and why.** *Sending* is 4.5 points off: what is missing is in the profile's own programs, which run in its software interrupts, in system-call entry, in interrupts and in
the C library's wrappers. *The cost* is 1.1 to 1.6 % instead of 1 %: the kernel programs take 0.7 to 1.1 %, the reader about 0.5 %. Most of the cost is the walk of
two stacks for each sample, and 5 to 7 µs of the reader for each. Tried and kept: programs in an object of their own that return immediately where nothing
changes, a ring that wakes its reader once for a quarter of its size, a reader that removes duplicate stacks (2.2 to 1.5 %), and no reading of the clock at
software interrupts over a task and at interrupts that only call the scheduler (1.6 to 1.1 %). Ten minutes of two busy processors are about 14 MB (bar: 30).

**When.** Each table has its date. `bench/profile/run` measures all of it (root; 12 minutes; an idle machine), `bench/profile/run --only NAME` one part.
[PROFILE.md](../PROFILE.md) says how to use a profile.
"""


def table(path=None):
    """The results in the checkout, or those in a file elsewhere."""
    return Results(path or RESULTS, "name", SCHEMA, raw=None if path else os.path.join(RAW, "bench", "profile"))


def in_short(line):
    """A line for whoever waits."""
    if line["state"] != "done":
        return f"{line['state'].upper()}: {line['reason']}"
    known = {"worst_points": "at most {:.2f} points off", "samples": "{:,} samples", "cost_share": "cost {:.2%}", "rate_bytes_per_s": "{:,.0f} bytes/s"}
    words = [text.format(line[key]) for key, text in known.items() if line.get(key) is not None]
    return ", ".join([*words, *(["bar met" if line["met"] else "bar MISSED"] if "met" in line else [])])


def write(results, path=PAGE):
    """Write the page."""
    write_text(path, PREFACE + markdown(results.all()))


def markdown(lines):
    """All of it."""
    parts = [*by_perf(lines), *by_truth(lines), *by_study(lines), *by_cost(lines)]
    return "\n".join(["", *parts, ""])


def done(lines, prefix):
    return {name.removeprefix(prefix): line for name, line in lines.items() if name.startswith(prefix) and line["state"] == "done"}


def not_done(lines, prefix):
    return [f"- {name.removeprefix(prefix)}: **{line['state'].upper()}**: {line['reason']}" for name, line in lines.items() if name.startswith(prefix) and line["state"] != "done"]


def measured(lines):
    """When, on what, and how busy that was with other things."""
    one = next(iter(lines.values()), None)
    if not one:
        return "Nothing has been measured yet."
    busy = [line["busy_before"] for line in lines.values() if line["busy_before"] is not None]
    words = f", at most {max(busy):.0%} busy with other things at the beginning" if busy else ""
    return f"Measured {one['measured'][:10]} on {one['machine']['cores']} processors, kernel {one['machine']['kernel']}{words}."


def by_perf(lines):
    loads = done(lines, "perf-")
    text = ["## Beside `perf`\n", measured(loads)]
    text += ["Percent of samples of busy processors, the profile's and `perf record -a -e cpu-clock -c 1003009 -g`'s of the same 20 s; perf's"]
    text += ["are classified by [a second reader](../../bench/profile/rules.py) of the same rules. Both are timer interrupts and share their bias, so"]
    text += ["agreement does not prove that either is right. Asked: at most 2 points apart in each class, and 10,000 samples.\n"]
    names = [name for name in ORDER if name in loads]
    shares = {name: {row["class"]: row for row in loads[name]["classes"]} for name in names}
    classes = sorted({key for rows in shares.values() for key, row in rows.items() if max(row["ours"], row["perf"]) >= 0.5}, key=CLASSES.index)
    text += [f"| class | {' | '.join(names)} |", f"|---|{'---|' * len(names)}"]
    for key in classes:
        cells = [f"{rows[key]['ours']:.1f} / {rows[key]['perf']:.1f}" if key in rows else "" for rows in shares.values()]
        text.append(f"| {key} | {' | '.join(cells)} |")
    known = [loads[name] for name in names]
    text.append("| samples | " + " | ".join(f"{line['samples']:,} / {line['perf_samples']:,}" for line in known) + " |")
    text.append("| furthest apart, points | " + " | ".join(f"{line['worst_points']:.2f}" for line in known) + " |")
    text.append("| 2 points, 10,000 samples | " + " | ".join("met" if line["met"] else "**missed**" for line in known) + " |")
    return [*text, "", *not_done(lines, "perf-")]


def by_truth(lines):
    line = lines.get("truth")
    text = ["## Beside a program that counts itself\n"]
    if not line or line["state"] != "done":
        return [*text, line["reason"] if line else "Not measured yet.", ""]
    text += [measured({"truth": line})]
    text += [f"`bench/profile/spends.c` spends its time in parts that take turns, and reads its thread's clock around each ({line['seconds']} s, one thread)."]
    text += ["Percent of its time: as it counted; in the part's classes (in the kernel by *what for*, `for` in JSON); in the part's own function of the"]
    text += ["program. Each part alone has three fifths and spinning the rest, then all seven share. Asked: classes and own function within 2 points of the count."]
    text += ["", "| part | classes | counted | in classes | own code | apart | of seven: counted | in classes | own code | apart |", f"|{'---|' * 10}"]
    parts = {(mix["mix"], part["part"]): part for mix in line["mixes"] for part in mix["parts"]}
    for name in dict.fromkeys(part for _, part in parts):
        one, mixed = parts.get((name, name)), parts.get(("all", name))
        text.append(f"| {name} | {', '.join(one['classes'])} | {apart(one)} | {apart(mixed)} |")
    text += ["", f"Furthest apart: {line['worst_points']:.2f} points ({'met' if line['met'] else '**missed**'}). Own code of `fault` is mostly the way back from the kernel: a sample that"]
    text += ["comes due while interrupts are off there lands on the program's next instruction. What is missing from `send` is in *recorder* (the profile's own"]
    return [*text, "programs, which run in its software interrupts), system-call entry, interrupts, and the C library's wrappers.", ""]


def apart(part):
    if part is None:
        return " | | | "
    return f"{part['counted']:.2f} | {part['in_classes']:.2f} | {part['in_own_code']:.2f} | {part['profile'] - part['counted']:+.2f}"


def by_study(lines):
    line, loads = lines.get("study"), done(lines, "alone-")
    text = ["## Servers, read from and written to\n"]
    if not line or line["state"] != "done":
        return [*text, line["reason"] if line else "Not measured yet.", ""]
    text += [measured({name: loads[name] for name in STUDY_RATES if name in loads})]
    text += ["Copies of 1 GiB, one after the other, from the page cache into files on ext4; GridFTP with 4 streams, our store with 4 servers."]
    text += ["Client and server share the machine, so the kernel's classes have both; *other programs* is the clients' own code.", "", "```"]
    text += [line["text"].rstrip(), "```", "", "| | the study, 2004 | here, between copies included |", "|---|---|---|"]
    for name, known in STUDY_RATES.items():
        rate = loads.get(name, {}).get("rate_bytes_per_s")
        text.append(f"| {loads.get(name, {}).get('title', name)} | {known} | {f'{rate / (1 << 20):,.0f} MiB/s' if rate else 'not known'} |")
    text += ["", "Of the study we have its classes and its rates; its percentages are not known to us and are not made up here. Rates of machines twenty"]
    return [*text, "years apart do not compare.", ""]


def by_cost(lines):
    loads = {name: line for name, line in done(lines, "alone-").items() if name in ORDER}
    text = ["## What a profile costs\n", measured(loads), "Percent of all processors' time: the kernel's own count of the programs that take samples, and their reader. Asked: at most 1 %, and"]
    text += ["no sample lost.", "", "| load | programs | reader | together | lost | samples | recording | |", "|---|---|---|---|---|---|---|---|"]
    for name in ORDER:
        line = loads.get(name)
        if line and line["cost_share"] is not None:
            cells = [f"{line['bpf_share']:.2%}", f"{line['reader_share']:.2%}", f"{line['cost_share']:.2%}", f"{line['lost']}", f"{line['samples']:,}"]
            cells += [f"{line['recording_bytes'] / 1e6:.1f} MB", "met" if line["met"] else "**missed**"]
            text.append(f"| {line['title']} | {' | '.join(cells)} |")
    return [*text, "", *not_done(lines, "alone-")]


ORDER = ["gridftp-read", "gridftp-write", "nfs-read", "nfs-write", "store-read", "store-write", "tar-gzip"]
CLASSES = "idle netdrv irq net rpc copy fs block mm sched syscall rest libc program libraries others steal recorder".split()
STUDY_RATES = {
    "gridftp-read": "GridFTP 6.45 MB/s",
    "gridftp-write": "GridFTP 7.83 MB/s",
    "store-read": "(NeST 7.69 MB/s)",
    "store-write": "(NeST 5.5 MB/s)",
}
