"""What it costs a program to be recorded, to within one per cent, and what who is not recorded pays.

A round is `bench/loops/quad`: the work alone, recorded, recorded, alone, several runs of it in each. Its ratio is one pair; the
case's figure is the median of the pairs with its interval. Where the interval is wider than one per cent on either side, the answer is that it cannot be
told. Servers of copies are recorded too (`--also`). Beside the ratio stands what the recorder itself says it took: the kernel's
statistics of its programs and the reader's CPU time, as a share of all processors.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys

from bench.harness import pairs, result
from bench.harness.bench import MIB
from bench.harness.command import timed
from bench.harness.loops import LOOPS, compiled
from bench.harness.pairs import Plan, Subject
from bench.harness.result import Amount
from testbed.errors import Broken, NotRun

LAP, QUAD = os.path.join(LOOPS, "lap"), os.path.join(LOOPS, "quad")
COPY_BYTES = 256 * MIB
# One of a round's four parts, and all rounds of a case.
PART_SECONDS, CASE_SECONDS = 1.6, 130.0
MOST_CPU_SHARE = 0.02
# The interval may be so wide and still say something.
WIDEST = 0.02
FIGURES = ["ratio", "cpu_ratio", "cpu_share", "reader_share", "dropped", "size_bytes"]


class Work:
    """What is done: a command that can be run again and again, which processes serve it, what part of its speed it must keep."""

    def __init__(self, name, command, least, also=(), beside=False, copies=True):
        self.name, self.command, self.least, self.also, self.beside, self.copies = name, command, least, list(also), beside, copies

    def lap(self, times):
        """So many runs with their stop watch; a copy finds memory that was in use until just now."""
        return [LAP, "--times", str(times), "--memory", str(self.memory_bytes), *self.command]

    @property
    def memory_bytes(self):
        return 3 * COPY_BYTES if self.copies else MIB


def loop(name, bench):
    """A loop of 4 KiB reads and writes."""
    program = [compiled(bench, "readwrite")] if name == "c" else [sys.executable, os.path.join(LOOPS, "readwrite.py")]
    return Work(name, [*program, bench.source(4 * MIB), bench.path("loop-sink"), "200000"], 0.99, copies=False)


def cp(bench):
    """`cp` between two files in the page cache."""
    return Work("cp", ["cp", bench.source(COPY_BYTES), bench.path("cp-target")], 0.99)


def nfs(bench):
    """`nfs-cp` into NFS-Ganesha, which keeps removed files open: none is copied over, and each gives its space back."""
    server = bench.server("nfs")
    once = ["sh", "-c", 'nfs-cp "$1" "$2" && : >"$0" && rm "$0"', os.path.join(server.root, "watched-{lap}")]
    return Work("nfs", [*once, bench.source(COPY_BYTES), server.address("watched-{lap}")], 0.97, also=[server.process.pid])


def gridftp(bench):
    """`globus-url-copy` with one stream."""
    server = bench.server("gridftp")
    command = ["globus-url-copy", "file://" + bench.source(COPY_BYTES), server.address(bench.path("gridftp-files", "watched"))]
    return Work("gridftp", command, 0.99, also=[server.process.pid])


def store(bench):
    """`thalweg cp` into a store of four servers, watched from outside like any program."""
    running = bench.store()
    command = [running.program, "cp", "--force", bench.source(COPY_BYTES), running.url("watched")]
    return Work("store", command, 0.97, also=[running.process.pid])


def bystander(bench):
    """Two processes that switch to and fro on one processor, and that nobody records, while something else is recorded."""
    return Work("bystander", [compiled(bench, "pingpong"), "0", "100000"], 0.97, beside=True, copies=False)


def pipeline(name, bench):
    """Four programs that hand bytes on through pipes as fast as they can: tens of thousands of wake-ups a second."""
    del bench
    passing = {
        "pipeline": "dd if=/dev/zero bs=64k count=20000 2>/dev/null | cat | cat | cat >/dev/null",
        "filters": "head -c 300M /dev/zero | tr a b | tr c d | wc -c >/dev/null",
    }
    return Work(name, ["sh", "-c", passing[name]], 0.95, copies=False)


WORKS = {
    "c": lambda b: loop("c", b),
    "python": lambda b: loop("python", b),
    "cp": cp,
    "nfs": nfs,
    "gridftp": gridftp,
    "store": store,
    "pipeline": lambda b: pipeline("pipeline", b),
    "filters": lambda b: pipeline("filters", b),
    "bystander": bystander,
}


def watching(work_name, bench):
    """One kind of work, recorded and not."""
    if os.geteuid() != 0:
        raise NotRun("the kernel recorder needs root")
    work = WORKS[work_name](bench)
    part_seconds, case_seconds = (0.5, 10.0) if bench.quick else (PART_SECONDS, CASE_SECONDS)
    timed(work.lap(1))
    times = max(1, round(part_seconds / (timed(work.lap(3)) / 3)))
    specification = {
        "thalweg": bench.program("thalweg"),
        "options": [word for pid in work.also for word in ("--also", str(pid))],
        "command": work.command,
        "times": times,
        "memory_bytes": work.memory_bytes,
        "beside": work.beside,
        "directory": os.path.dirname(bench.path("recordings", "one")),
    }
    round_words = [QUAD, json.dumps(specification)]
    subject = Subject("quad", f"{work.name}: alone, recorded, recorded, alone", lambda run: round_words, own=last_line, figures=FIGURES)
    rounds = max(5, min(40, int(case_seconds / timed(round_words))))
    amount = Amount(4 * times, "runs")
    outcome = pairs.run(bench, [subject], Plan(least=rounds, most=rounds, seconds=10 * case_seconds, warm_up=False), "quad", amount)
    document = result.of_pairs(outcome, [subject], "quad", [])
    document["bars"] = bars(work, outcome.of("quad")["figures"])
    return document


def bars(work, figures):
    """What was asked, and what was reached."""
    told = {name: pairs.summary(figures[name]) for name in FIGURES}
    share, dropped = told["cpu_share"], told["dropped"]
    return [
        ratio_bar(f"{work.name}: {'while something else is recorded' if work.beside else 'recorded'} / alone", work.least, told["ratio"]),
        fine(result.absolute_bar(f"{work.name}: the command's processor time, alone / recorded", "", told["cpu_ratio"], None), 3),
        fine(result.absolute_bar(f"{work.name}: programs and reader, share of all processors", f"≤ {MOST_CPU_SHARE}", share, share["median"] <= MOST_CPU_SHARE), 4),
        fine(result.absolute_bar(f"{work.name}: the reader's part of it", "", told["reader_share"], None), 4),
        result.absolute_bar(f"{work.name}: events lost", "0", dropped, dropped["high"] == 0),
        result.absolute_bar(f"{work.name}: bytes of a recording", "", told["size_bytes"], None),
    ]


def ratio_bar(what, least, told):
    """Met or missed, or that the machine does not let it be told."""
    bar = result.absolute_bar(what, f"≥ {least:.2f}", told, told["median"] >= least)
    return {**fine(bar, 3), "cannot_tell": told["high"] - told["low"] > WIDEST}


def fine(bar, places):
    """With so many places on the page."""
    return {**bar, "places": places}


def last_line(text):
    """What the stop watch said."""
    for line in reversed(text.splitlines()):
        with contextlib.suppress(ValueError):
            return json.loads(line)
    raise Broken("the command's own time is missing from its output")


def other_tools(work_name, bench):
    """The same work under strace, perf trace and bpftrace, which trace every call."""
    if os.geteuid() != 0:
        raise NotRun("other tools need root too")
    work, log = WORKS[work_name](bench), bench.path("others", "log")
    inside = work.lap(1)
    commands = {
        "alone": inside,
        "strace -f": ["strace", "-f", "-o", log, *inside],
        "perf trace": ["perf", "trace", "-o", log, *inside],
        "bpftrace": ["bpftrace", "-o", log, "-c", " ".join([sys.executable, *inside]), "-e", HISTOGRAM],
    }
    present = {name: words for name, words in commands.items() if shutil.which(words[0])}
    for name in commands.keys() - present.keys():
        bench.note(f"{name} is not installed")
    subjects = [Subject(name, name, lambda run, words=words: words, own=last_line, figures=["elapsed_s"]) for name, words in present.items()]
    rounds = 2 if bench.quick else 3
    ratios = [(one.name, "alone") for one in subjects[1:]]
    with tracefs():
        outcome = pairs.run(bench, subjects, Plan(least=rounds, most=rounds, seconds=600), "alone", Amount(1, "runs"), pairs=ratios)
    document = result.of_pairs(outcome, subjects, "alone", [])
    for name, _ in ratios:
        summary, _ = outcome.ratio(name, "alone", "elapsed_s")
        document["bars"].append(result.absolute_bar(f"{work.name}: under {name} / alone, the command's own time", "", summary, None))
    return document


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


# Of the lengths of all system calls.
HISTOGRAM = "tracepoint:raw_syscalls:sys_enter { @at[tid] = nsecs; } tracepoint:raw_syscalls:sys_exit /@at[tid]/ { @ns = hist(nsecs - @at[tid]); }"
