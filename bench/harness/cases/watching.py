"""What it costs a program to be recorded: the same work alone, under each tier of `thalweg record`, and under other tools.

Each command runs inside `bench/loops/lap`, which times it alone: attaching before it and writing tables after it are not its cost.
The servers of copies are recorded too (`--also`). Beside the ratios stand what the recorder itself says it took (the kernel's
statistics of its programs and the reader's CPU time), how many bytes an event takes, and what was lost.
"""

import contextlib
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

from bench.harness import pairs, result
from bench.harness.bench import GIB, MIB, whole
from bench.harness.command import timed
from bench.harness.pairs import Plan, Subject
from bench.harness.result import Amount
from testbed import files, shell
from testbed.errors import Broken, NotRun

LOOPS = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "loops")
LAP = os.path.join(LOOPS, "lap")
LOOP_SECONDS = 5.5
COPY_BYTES = GIB

# Median and lower end of the interval that are asked of each tier, by kind of work; None: for information.
ASKED = {
    "lean": {"loop": (0.99, 0.96), "copy": (0.99, 0.96)},
    "syscall": {"python": (0.95, None), "c": (None, None), "copy": (0.98, None)},
}
MOST_CPU_SHARE = 0.01
# What a recording says of its own cost, run by run.
OWN_FIGURES = ["cpu_share", "dropped", "bytes_per_event"]


class Work:
    """What is done: the command of run N, what is done before and after it, and which servers belong to it."""

    def __init__(self, name, kind, amount, command, after=lambda run: None, also=lambda: []):
        self.name, self.kind, self.amount, self.command, self.after, self.also = name, kind, amount, command, after, also

    def lap(self, run, part=1):
        """The command with its stop watch; a copy finds memory that was in use until just now."""
        memory = ["--memory", str(2 * int(self.amount.count))] if self.kind == "copy" else []
        return [LAP, *memory, *self.command(run, part)]


def loop(name, bench):
    """A loop of 4 KiB reads and writes that lasts a little over five seconds here."""
    source, sink = bench.source(4 * MIB), bench.path("loop-sink")
    if name == "c":
        program = bench.path("loops", "readwrite")
        done = subprocess.run(["cc", "-O2", "-o", program, os.path.join(LOOPS, "readwrite.c")], capture_output=True, check=False, text=True)
        if done.returncode != 0:
            raise NotRun(f"cc: {shell.last_line(done.stderr)}")
        words = [program]
    else:
        words = [sys.executable, os.path.join(LOOPS, "readwrite.py")]
    probe = 100_000
    timed([*words, source, sink, str(probe)])
    once = timed([*words, source, sink, str(probe)])
    seconds = 1.0 if bench.quick else LOOP_SECONDS
    times = max(probe, int(probe * seconds / once))
    amount = Amount(times * 2 * 4096, "bytes")
    return Work(name, "loop", amount, lambda run, part=1: [*words, source, sink, str(times // part)])


def nfs(bench):
    """`nfs-cp` into NFS-Ganesha."""
    server, source = bench.server("nfs"), bench.source(copy_bytes(bench))
    # No two subjects' files have one name.
    command = lambda run, part=1: ["nfs-cp", source, server.address(f"watch-{run}-{{name}}")]  # noqa: E731

    def after(run):
        for path in glob.glob(os.path.join(server.root, f"watch-{run}-*")):
            server.remove(os.path.basename(path))

    return Work("nfs", "copy", Amount(copy_bytes(bench), "bytes"), command, after, also=lambda: [str(server.process.pid)])


def gridftp(bench):
    """`globus-url-copy` with one stream."""
    server, source = bench.server("gridftp"), bench.source(copy_bytes(bench))
    target = lambda run: bench.path("gridftp-files", f"watch-{run}")  # noqa: E731

    def after(run):
        try:
            if os.path.exists(target(run)):
                whole(target(run), source, run)
        finally:
            files.remove(target(run))

    command = lambda run, part=1: ["globus-url-copy", "file://" + source, server.address(target(run))]  # noqa: E731
    return Work("gridftp", "copy", Amount(copy_bytes(bench), "bytes"), command, after, also=lambda: [str(server.process.pid)])


def store(bench):
    """`thalweg cp` into a store of four servers, watched from outside like any program."""
    running, source = bench.store(), bench.source(copy_bytes(bench))
    target = lambda run: f"watch-{run}"  # noqa: E731
    command = lambda run, part=1: [running.program, "cp", "--force", source, running.url(target(run))]  # noqa: E731

    def after(run):
        try:
            running.remove(target(run))
        except Broken:
            pass

    return Work("store", "copy", Amount(copy_bytes(bench), "bytes"), command, after, also=lambda: [str(running.process.pid)])


def copy_bytes(bench):
    return 256 * MIB if bench.quick else COPY_BYTES


WORKS = {"c": lambda b: loop("c", b), "python": lambda b: loop("python", b), "nfs": nfs, "gridftp": gridftp, "store": store}


def watching(work_name, bench):
    """One kind of work: alone, under both tiers, and under other tools."""
    if os.geteuid() != 0:
        raise NotRun("the kernel recorder needs root")
    work, thalweg = WORKS[work_name](bench), bench.program("thalweg")
    told = {}
    alone = subject(work, "alone", "alone", lambda run: [])
    # A span per call costs a bare loop of calls many times its own time, and would fill the rounds: for that the Python loop stands.
    names = ("lean",) if work.name == "c" else ("lean", "syscall")
    tiers = [tier_subject(bench, work, thalweg, tier, told) for tier in names]
    plan = Plan(least=3, most=5, seconds=20) if bench.quick else Plan(least=5, most=16, seconds=45, narrow=0.04)
    memory = bench.memory(copy_bytes(bench) if work.kind == "copy" else 64 * MIB)
    outcome = pairs.run(bench, [alone, *tiers], plan, "alone", work.amount, memory, [(tier, "alone") for tier in names])
    document = result.of_pairs(outcome, [alone, *tiers], "alone", [])
    for tier in names:
        median, low = ASKED[tier].get(work.kind) or ASKED[tier][work.name]
        document["bars"].append(ratio_bar(f"{work.name}: recorded ({tier}) / alone, the command's own time", outcome, tier, median, low))
    for tier in names:
        document["bars"] += own_cost(work, tier, outcome.of(tier)["figures"])
    document["recorder"] = told
    others = other_tools(bench, work)
    if others:
        document["bars"] += others
    return document


def subject(work, name, label, prefix, after=lambda run: None):
    """The work behind a prefix: whatever watches it."""

    def check(run):
        numbers = after(run)
        work.after(run)
        return numbers

    command = lambda run: [*prefix(run), *work.lap(run)]  # noqa: E731
    return Subject(name, label, command, after=check, own=last_line, figures=["elapsed_s"])


def tier_subject(bench, work, thalweg, tier, told):
    kept = lambda run: bench.path("recordings", f"{work.name}-{tier}-{run}.thw")  # noqa: E731

    def prefix(run):
        also = [word for pid in work.also() for word in ("--also", pid)]
        return [thalweg, "record", "-o", kept(run), "--tier", tier, *also, "--"]

    def after(run):
        try:
            found = of_recording(kept(run))
        finally:
            files.remove(kept(run))
        if run > 0:
            told.setdefault(tier, []).append(found)
        return {key: found[key] for key in OWN_FIGURES}

    recorded = subject(work, tier, f"recorded, tier {tier}", prefix, after)
    recorded.figures += OWN_FIGURES
    return recorded


def of_recording(path):
    """What a recording says of its own cost."""
    with open(os.path.join(path, "meta.json")) as source:
        meta = json.load(source)
    attributes = dict(meta["attributes"]) if isinstance(meta["attributes"], list) else meta["attributes"]
    size = sum(os.path.getsize(one) for one in glob.glob(os.path.join(path, "**"), recursive=True) if os.path.isfile(one))
    wall_ns = (meta["end"] or 0) - meta["start"]
    cpu_ns = int(attributes.get("recorder.cpu_ns", 0))
    events = int(attributes.get("recorder.events", 0))
    return {
        "wall_ns": wall_ns,
        "cpu_ns": cpu_ns,
        "cpu_share": cpu_ns / (wall_ns * os.cpu_count()),
        "events": events,
        "size_bytes": size,
        "bytes_per_event": size / max(events, 1),
        "dropped": meta["dropped_events"],
        "recorder": meta["recorder"],
    }


def own_cost(work, tier, figures):
    """The recorder's CPU share by its own account, what was lost, and the size of an event."""
    share, dropped, size = (pairs.summary(figures[key]) for key in OWN_FIGURES)
    wanted, met = (f"≤ {MOST_CPU_SHARE}", share["median"] <= MOST_CPU_SHARE) if tier == "lean" else ("", None)
    return [
        result.absolute_bar(f"{work.name}: the recorder's share of the machine's CPU ({tier})", wanted, share, met),
        result.absolute_bar(f"{work.name}: events lost ({tier})", "0", dropped, dropped["high"] == 0),
        result.absolute_bar(f"{work.name}: bytes on disk per event ({tier})", "", size, None),
    ]


def ratio_bar(title, outcome, name, median=None, low=None):
    """Time alone over time watched: the part of its speed that the command keeps."""
    summary, _ = outcome.ratio(name, "alone", "elapsed_s")
    asked = [("≥", median), ("low end ≥", low)]
    wanted = ", ".join(f"{what} {least:.2f}" for what, least in asked if least is not None)
    met = None
    if median is not None:
        met = summary["median"] >= median and (low is None or summary["low"] >= low)
    return result.absolute_bar(title, wanted, summary, met)


def other_tools(bench, work):
    """The same work under strace, perf trace and bpftrace; shorter, for some of them are slow."""
    part = 200 if work.kind == "loop" else 1
    log = bench.path("others", "log")
    tools = {
        "strace -f": ["strace", "-f", "-o", log],
        "perf trace": ["perf", "trace", "-o", log],
        "bpftrace": ["bpftrace", "-o", log, "-c"],
    }
    short = Work(work.name, work.kind, work.amount, lambda run, _=1: work.command(run, part), work.after)
    subjects = [subject(short, "alone", "alone", lambda run: [])]
    for name, words in tools.items():
        if shutil.which(words[0]) is None:
            bench.note(f"{name} is not installed")
            continue
        if words[0] == "bpftrace":
            subjects.append(bpftrace_subject(short, name, words))
        else:
            subjects.append(subject(short, name, name, lambda run, words=words: words))
    rounds = 2 if bench.quick else 3
    try:
        with tracefs():
            outcome = pairs.run(bench, subjects, Plan(least=rounds, most=rounds, seconds=600), "alone", work.amount, pairs=[(one.name, "alone") for one in subjects[1:]])
    except Broken as reason:
        bench.note(f"other tools: {reason}")
        return []
    return [ratio_bar(f"{work.name}: under {one.name} / alone", outcome, one.name) for one in subjects[1:]]


@contextlib.contextmanager
def tracefs():
    """The other tools need it; where it is not mounted, it is for as long as they run."""
    where = "/sys/kernel/tracing"
    mounted = not os.path.ismount(where) and subprocess.run(["mount", "-t", "tracefs", "tracefs", where], check=False).returncode == 0
    try:
        yield
    finally:
        if mounted:
            subprocess.run(["umount", where], check=False)


HISTOGRAM = "tracepoint:raw_syscalls:sys_enter { @at[tid] = nsecs; } tracepoint:raw_syscalls:sys_exit /@at[tid]/ { @ns = hist(nsecs - @at[tid]); }"


def bpftrace_subject(work, name, words):
    """A histogram of the lengths of all system calls."""
    command = lambda run: [*words, " ".join([sys.executable, *work.lap(run)]), "-e", HISTOGRAM]  # noqa: E731
    return Subject(name, name, command=command, after=work.after, own=last_line, figures=["elapsed_s"])


def last_line(text):
    """What `lap` said."""
    for line in reversed(text.splitlines()):
        try:
            return json.loads(line)
        except ValueError:
            continue
    raise Broken("the command's own time is missing from its output")


def untracked(bench):
    """What a program pays that is not recorded, while another on the same machine is."""
    if os.geteuid() != 0:
        raise NotRun("the kernel recorder needs root")
    work, thalweg = loop("c", bench), bench.program("thalweg")
    recorders = {}

    def begin(run):
        directory = tempfile.mkdtemp(prefix="untracked-", dir=bench.work)
        command = [thalweg, "record", "-o", os.path.join(directory, "idle.thw"), "--", "sh", "-c", "echo begun; exec sleep 1000"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
        recorders[run] = (process, directory)
        process.stdout.readline()

    def end(run):
        process, directory = recorders.pop(run)
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        files.remove(directory)

    alone = subject(work, "alone", "nothing recorded", lambda run: [])
    beside = subject(work, "beside", "another program recorded", lambda run: [], after=end)
    beside.before = begin
    plan = Plan(least=3, most=5, seconds=20) if bench.quick else Plan(least=5, most=12, seconds=80, narrow=0.02)
    outcome = pairs.run(bench, [alone, beside], plan, "alone", work.amount, pairs=[("beside", "alone")])
    document = result.of_pairs(outcome, [alone, beside], "alone", [])
    document["bars"].append(ratio_bar("a C loop beside a recording of something else / alone", outcome, "beside", 0.99, None))
    return document
