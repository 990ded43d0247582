"""Work that is done again and again, alone and recorded: the parts of `bench.harness.rounds`, and what comes of them as a case's document."""

import contextlib
import glob
import json
import os
import shutil
import signal
import subprocess

from bench.harness import result, rounds
from bench.harness.bench import MIB
from bench.harness.loops import LOOPS
from bench.harness.rounds import ALONE, WITH, Part, Plan
from testbed import machine, shell
from testbed.errors import Broken

LAP = os.path.join(LOOPS, "lap")
# The recorder counts reads, and its own cost, for a part of each two seconds: a part of so long has its share of that.
PART_SECONDS = 2.0
TIMEOUT_S = 120


class Work:
    """What is done: a command that can be run again and again, which processes serve it, what part of its speed it must keep."""

    def __init__(self, name, command, least, also=(), beside=False, memory_bytes=MIB, own=None, remove=None):
        # Whose work it is, if not root's (`User` of testbed/users); the recorder is then such a user's.
        self.user = None
        self.name, self.command, self.least, self.also, self.beside, self.memory_bytes = name, command, least, list(also), beside, memory_bytes
        self.more = [word for option, value in (("--own", own), ("--remove", remove)) if value for word in (option, value)]

    def lap(self, times):
        """So many runs with their stop watch; a copy finds memory that was in use until just now."""
        return self.started(self.timed(times))

    def timed(self, times):
        """The command of `lap`, without changing to the user whose work it is."""
        return [LAP, "--times", str(times), "--memory", str(self.memory_bytes), *self.more, *self.command]

    def started(self, argv):
        """A command as whose work it is starts it."""
        return self.user.argv(argv) if self.user else argv

    @property
    def recorder(self):
        """Which recorder is on trial."""
        return "user" if self.user else "bpf"


def parts(work, bench):
    """How a part of either kind is made, and how many laps it has."""
    times = laps_of(work, bench)
    lap, kept = work.lap(times), bench.path("recordings", f"{work.name}.thw")
    also = [word for pid in work.also for word in ("--also", str(pid))]
    record = work.started([bench.program("thalweg"), "record", "--method", work.recorder, "-o", kept, *also, "--"])

    def part(kind):
        if kind == ALONE:
            return ran(lap)
        try:
            made = beside(record, lap) if work.beside else ran([*record, *work.timed(times)])
            made.facts = of_recording(kept, work.recorder)
            return made
        finally:
            shutil.rmtree(kept, ignore_errors=True)

    return part, times


def laps_of(work, bench):
    """How many laps a part has."""
    lap_s = min(ran(work.lap(4)).laps["laps_s"])
    return max(1, round((PART_SECONDS / 4 if bench.quick else PART_SECONDS) / lap_s))


def ran(words):
    """What the stop watch said."""
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    if done.returncode != 0:
        raise Broken(f"{' '.join(words)}: exit code {done.returncode}: {shell.last_line(done.stderr)}")
    for line in reversed(done.stdout.splitlines()):
        with contextlib.suppress(ValueError):
            told = json.loads(line)
            return Part({name: told[name] for name in ("laps_s", "cpu_s", "own") if told[name]})
    raise Broken(f"{' '.join(words)}: the command's own time is missing from its output")


def beside(record, lap):
    """The same while a program that sleeps is recorded."""
    sleeper = [*record, "sh", "-c", "echo begun; exec sleep 1000"]
    process = subprocess.Popen(sleeper, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        process.stdout.readline()
        return ran(lap)
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=TIMEOUT_S)


def of_recording(path, recorder="bpf"):
    """What a recording says of its own cost."""
    with open(os.path.join(path, "meta.json")) as source:
        meta = json.load(source)
    attributes = dict(meta["attributes"])
    if meta["recorder"] != recorder:
        raise Broken(f"recorded by {meta['recorder']}, and {recorder} was asked for: {attributes.get('notes', '')}")
    processors_ns = (meta["end"] - meta["start"]) * os.cpu_count()
    files = glob.glob(os.path.join(path, "**"), recursive=True)
    return {
        "cpu_share": int(attributes.get("recorder.cpu_ns", 0)) / processors_ns,
        "reader_share": int(attributes.get("recorder.reader_cpu_ns", 0)) / processors_ns,
        "dropped": meta["dropped_events"],
        "size_bytes": sum(os.path.getsize(one) for one in files if os.path.isfile(one)),
    }


def measured(work, part, times, bench, unit="runs", count=1):
    """Rounds of such parts: a case's document without bars, and the rounds themselves (`made`)."""
    meter = machine.CpuMeter()
    plan = Plan(least=3, seconds=10.0) if bench.quick else Plan()
    made = rounds.run(part, plan, bench.note)
    return {
        "reference": WITH,
        "amount": {"count": count, "unit": unit},
        "subjects": [subject(kind, f"{work.name}: {label}", work, made, times, count) for kind, label in ((ALONE, "alone"), (WITH, "beside a recording" if work.beside else "recorded"))],
        "bars": [],
        "cpu": meter.read(),
        "rounds": [{kind: [vars(one) for one in some] for kind, some in one_round.items()} for one_round in made],
        "made": made,
    }


def subject(kind, label, work, made, times, count):
    """How long an undisturbed lap takes, as the page has it."""
    lap = rounds.estimate(made, lambda some: rounds.undisturbed(some, kind) / times)
    cpu = rounds.undisturbed(made, kind, "cpu_s") / times
    speed = {"median": count / lap.value, "low": count / lap.high, "high": count / lap.low}
    return {"name": kind, "label": label, "command": work.lap(times), "wall_s": lap.summary(), "rate_per_s": speed, "cpu_s": cpu, "peak_rss_bytes": None}


def ratio_bars(what, least, made, figure="laps_s"):
    """Met or missed, or that the interval is wide and has the bar in it; beside it all laps, and the processor time."""
    told = rounds.estimate(made, lambda some: rounds.kept(some, figure))
    bar = result.absolute_bar(f"{what} / alone", f"≥ {least:.2f}", told.summary(), told.value >= least)
    every = rounds.estimate(made, lambda some: rounds.every_lap(some, figure))
    cpu = rounds.estimate(made, lambda some: rounds.kept(some, "cpu_s"))
    return [
        {**fine(bar, 3), "undecided": told.half_width > Plan().half_width and told.low < least <= told.high},
        fine(result.absolute_bar(f"{what} / alone, disturbed laps too: median of the rounds", "", every.summary(), None), 3),
        fine(result.absolute_bar(f"{what}: the command's processor time, alone / the other", "", cpu.summary(), None), 3),
    ]


def fine(bar, places):
    """With so many places on the page."""
    return {**bar, "places": places}
