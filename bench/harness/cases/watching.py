"""What it costs a program to be recorded, to within one per cent, and what who is not recorded pays.

Rounds of parts alone and recorded, as `bench.harness.rounds` has them: each part is some seconds of runs of the work, in one recording or none. Where the
interval is wider than one per cent on either side, the answer is that it cannot be
told. Servers of copies are recorded too (`--also`). Beside the ratio stands what the recorder itself says it took: the kernel's
statistics of its programs and the reader's CPU time, as a share of all processors.
"""

import contextlib
import json
import os
import shlex
import shutil
import subprocess
import sys

from bench.harness import pairs, recorded, result, rounds
from bench.harness.bench import MIB
from bench.harness.loops import LOOPS, compiled
from bench.harness.pairs import Plan, Subject
from bench.harness.recorded import Work, fine
from bench.harness.result import Amount
from testbed import users
from testbed.errors import Broken, NotRun

# A lap is to take 0.1 s or more, so that what the recorder does ten times a second falls into each.
COPY_BYTES = 256 * MIB
COPY_MEMORY = 3 * COPY_BYTES
LOOPS_OF = {"c": "80000", "python": "80000"}
MOST_CPU_SHARE = 0.02
# What a program keeps of its speed beside an ordinary user's recorder, by kind of work. Who is not recorded pays nothing: to within the one per cent that can be told.
USERS_USUAL = 0.97
USERS_LEAST = {"pipeline": 0.85, "filters": 0.85, "pipeline-pinned": 0.85, "filters-pinned": 0.85, "bystander": 0.99}


def loop(name, bench):
    """A loop of 4 KiB reads and writes."""
    program = [compiled(bench, "readwrite")] if name == "c" else [sys.executable, os.path.join(LOOPS, "readwrite.py")]
    return Work(name, [*program, bench.source(4 * MIB), bench.path("loop-sink"), LOOPS_OF[name]], 0.99)


def cp(bench):
    """`cp` between two files in the page cache."""
    return Work("cp", ["cp", bench.source(COPY_BYTES), bench.path("cp-target")], 0.99, memory_bytes=COPY_MEMORY)


def nfs(bench):
    """`nfs-cp` into NFS-Ganesha, which keeps removed files open: none is copied over, and each gives its space back."""
    server = bench.server("nfs")
    once = ["sh", "-c", 'nfs-cp "$1" "$2" && : >"$0" && rm "$0"', os.path.join(server.root, "watched-{lap}")]
    return Work("nfs", [*once, bench.source(COPY_BYTES), server.address("watched-{lap}")], 0.97, also=[server.process.pid], memory_bytes=COPY_MEMORY)


def gridftp(bench):
    """`globus-url-copy` with one stream."""
    server = bench.server("gridftp")
    command = ["globus-url-copy", "file://" + bench.source(COPY_BYTES), server.address(bench.path("gridftp-files", "watched"))]
    return Work("gridftp", command, 0.99, also=[server.process.pid], memory_bytes=COPY_MEMORY)


def store(bench):
    """`thalweg cp` into a store of four servers, watched from outside like any program."""
    running = bench.store()
    command = [running.program, "cp", "--force", bench.source(COPY_BYTES), running.url("watched")]
    return Work("store", command, 0.97, also=[running.process.pid], memory_bytes=COPY_MEMORY)


def bystander(bench):
    """Two processes that switch to and fro on one processor, and that nobody records, while something else is recorded."""
    return Work("bystander", [compiled(bench, "pingpong"), "0", "50000"], 0.97, beside=True)


def pipeline(name, bench, pinned=False):
    """Four programs that hand bytes on through pipes as fast as they can: tens of thousands of wake-ups a second. Left alone the scheduler keeps
    them on one processor or spreads them, and the latter takes a third longer on a virtual machine, where an idle processor is woken by its host:
    whatever interrupts that processor decides. `pinned`: all on one."""
    del bench
    passing = {
        "pipeline": "dd if=/dev/zero bs=64k count=6000 2>/dev/null | cat | cat | cat >/dev/null",
        "filters": "head -c 150M /dev/zero | tr a b | tr c d | wc -c >/dev/null",
    }
    words = ["sh", "-c", passing[name]]
    if pinned:
        name, words = f"{name}, one processor", ["taskset", "-c", "0", *words]
    return Work(name, words, 0.95)


WORKS = {
    "c": lambda b: loop("c", b),
    "python": lambda b: loop("python", b),
    "cp": cp,
    "nfs": nfs,
    "gridftp": gridftp,
    "store": store,
    "pipeline": lambda b: pipeline("pipeline", b),
    "filters": lambda b: pipeline("filters", b),
    "pipeline-pinned": lambda b: pipeline("pipeline", b, pinned=True),
    "filters-pinned": lambda b: pipeline("filters", b, pinned=True),
    "bystander": bystander,
}


def watching(work_name, bench):
    """One kind of work, recorded and not."""
    if os.geteuid() != 0:
        raise NotRun("the kernel recorder needs root")
    return _watched(WORKS[work_name](bench), bench)


def watching_as_user(work_name, bench):
    """The same where work, servers and recorder are an ordinary user's."""
    if os.geteuid() != 0:
        raise NotRun("only root may become an ordinary user")
    own = bench.of_user()
    work = WORKS[work_name](own)
    work.name, work.least, work.user = f"{work.name}, an ordinary user's", USERS_LEAST.get(work_name, USERS_USUAL), own.user
    # The interpreter that runs this may be root's.
    work.command = [users.program("python3") if word == sys.executable else word for word in work.command]
    own.path("recordings", "any")
    own.user.give(own.work)
    return _watched(work, own)


def _watched(work, bench):
    part, times = recorded.parts(work, bench)
    document = recorded.measured(work, part, times, bench)
    document["bars"] = bars(work, document.pop("made"))
    return document


def bars(work, made):
    """What was asked, and what was reached."""
    what = "while something else is recorded" if work.beside else "recorded"
    told = lambda name: rounds.estimate(made, rounds.fact(name))  # noqa: E731
    share, dropped = told("cpu_share"), told("dropped")
    return [
        *recorded.ratio_bars(f"{work.name}: {what}", work.least, made),
        fine(result.absolute_bar(f"{work.name}: programs and reader, share of all processors", f"≤ {MOST_CPU_SHARE}", share.summary(), share.value <= MOST_CPU_SHARE), 4),
        fine(result.absolute_bar(f"{work.name}: the reader's part of it", "", told("reader_share").summary(), None), 4),
        result.absolute_bar(f"{work.name}: events lost", "0", dropped.summary(), dropped.high == 0),
        result.absolute_bar(f"{work.name}: bytes of a recording", "", told("size_bytes").summary(), None),
    ]


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
        "bpftrace": ["bpftrace", "-o", log, "-c", "/bin/sh " + script(bench.path("others", "command"), inside), "-e", HISTOGRAM],
    }
    present = {name: words for name, words in commands.items() if shutil.which(words[0])}
    for name in commands.keys() - present.keys():
        bench.note(f"{name} is not installed")
    subjects = [Subject(name, name, lambda run, words=words: words, own=last_line, figures=["elapsed_s"]) for name, words in present.items()]
    times = 2 if bench.quick else 3
    ratios = [(one.name, "alone") for one in subjects[1:]]
    with tracefs():
        outcome = pairs.run(bench, subjects, Plan(least=times, most=times, seconds=600), "alone", Amount(1, "runs"), pairs=ratios)
    document = result.of_pairs(outcome, subjects, "alone", [])
    for name, _ in ratios:
        summary, _ = outcome.ratio(name, "alone", "elapsed_s")
        document["bars"].append(result.absolute_bar(f"{work.name}: under {name} / alone, the command's own time", "", summary, None))
    return document


def script(path, words):
    """A command as a script for `sh`: bpftrace takes the words of its command apart at each space, and knows no quotes."""
    with open(path, "w") as out:
        out.write(f"exec {shlex.join(words)}\n")
    return path


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
