"""Having commands measured: the plan that `thalweg bench commands` is given, and what it answers.

The command runs them in turn, in an order shuffled anew for each repetition, until the intervals of the ratios are narrow or the time
of the case is used up, and makes medians, ratios and intervals of it. What a subject does before and after each run is Python, and
stays in this process: the plan has `harness/step` called there, which asks for it over a socket.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from testbed import machine, shell
from testbed.errors import Broken

STEP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "step")
RUN = "{run}"
SEED = 20070601


def _nothing(_run):
    return None


@dataclass
class Subject:
    """One way of doing the work of a case.

    `command` gives the argv of a run; it is called once, with `{run}`, which stands for the number of the run. `before` and `after`
    run untimed around it, with the number: `after` must raise `Broken` if the copy is not whole, and removes it; numbers that it
    returns in a dictionary can be figures. `own` turns the command's stdout into what it said about itself, kept beside our time.
    `figures` names numbers that the command prints, or `after` returns, which are to be compared like the time.
    """

    name: str
    label: str
    command: Callable[[str], list]
    before: Callable[[int], None] = _nothing
    after: Callable[[int], dict | None] = _nothing
    own: Callable[[str], dict] = _nothing
    figures: list = field(default_factory=list)


@dataclass
class Plan:
    """How many rounds, how long; whether each subject is run once before anything counts."""

    least: int = 10
    most: int = 20
    seconds: float = 60.0
    narrow: float = 0.05
    warm_up: bool = True


@dataclass
class Outcome:
    """What came of a case: the command's document, and how busy the machine was."""

    document: dict
    owns: dict = field(default_factory=dict)
    cpu: dict = None

    def of(self, name):
        """All that is known of one subject."""
        return next(command for command in self.document["commands"] if command["name"] == name)

    def ratio(self, of, to, figure="wall_s"):
        """How many times faster `of` was than `to`: the summary, and each round's."""
        pair = next(r for r in self.document["ratios"] if (r["of"], r["to"], r["figure"]) == (of, to, figure))
        return summary(pair["ratio"]), pair["pairs"]

    @property
    def rounds(self):
        """Every raw time, by round."""
        numbers = sorted({run["repeat"] for command in self.document["commands"] for run in command["runs"]})
        return [{"samples": {c["name"]: self._sample(c, number) for c in self.document["commands"]}} for number in numbers]

    def _sample(self, command, number):
        run = next(run for run in command["runs"] if run["repeat"] == number)
        sample = {"wall_s": run["wall_s"], "cpu_s": run["user_s"] + run["system_s"], "peak_rss_bytes": run["max_rss_bytes"]}
        own = self.owns.get((command["name"], number))
        return sample if own is None else {**sample, "own": own}


def summary(estimate):
    """Median and interval as a case's file has them."""
    return {key: estimate[key] for key in ("median", "low", "high")}


def run(bench, subjects, plan, reference, amount, before_round=None, pairs=()):
    """Run the subjects by the plan; the intervals of the ratios `reference` / other decide when it is enough.

    `before_round` is not timed. `pairs`: further ratios. `Broken` when a command fails, or what is done before or after it.
    """
    with tempfile.TemporaryDirectory(dir=bench.work) as directory, Steps(directory, subjects, before_round) as steps:
        path = os.path.join(directory, "plan.json")
        with open(path, "w") as out:
            json.dump(_document(subjects, plan, reference, before_round, amount, pairs, steps), out)
        meter = machine.CpuMeter()
        done = subprocess.run([bench.program("thalweg"), "bench", "commands", "--json", path], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            # What went wrong first is what is told: a step of ours, or the command.
            if steps.failure and str(steps.failure) in done.stderr:
                raise steps.failure
            raise Broken(shell.last_line(done.stderr))
        outcome = Outcome(json.loads(done.stdout), cpu=meter.read())
    for subject in subjects:
        found = outcome.of(subject.name)
        for sample in found["runs"]:
            outcome.owns[(subject.name, sample["repeat"])] = subject.own(sample.pop("output"))
    told = "  ".join(f"{c['name']} {c['wall_s']['median']:.3f}" for c in outcome.document["commands"])
    bench.note(f"{len(outcome.rounds)} rounds: {told}")
    return outcome


def _document(subjects, plan, reference, before_round, amount, pairs, steps):
    return {
        "name": "case",
        "baseline": reference,
        "pairs": list(pairs),
        "amount": {"count": amount.count, "unit": amount.unit},
        "repeat": {"least": plan.least, "most": plan.most, "narrow": plan.narrow, "seconds": plan.seconds},
        "warm_up": plan.warm_up,
        "before_repetition": [steps.words("round")] if before_round else [],
        "keep_output": True,
        "seed": SEED,
        "commands": [
            {
                "name": subject.name,
                "command": [str(word) for word in subject.command(RUN)],
                "prepare": [steps.words("before", subject.name), ["sync"]],
                "cleanup": [steps.words("after", subject.name)],
                "figures": subject.figures,
            }
            for subject in subjects
        ],
    }


class Steps:
    """Does what the plan's preparations and cleanups ask for, on a thread of this process."""

    def __init__(self, directory, subjects, before_round):
        self.path = os.path.join(directory, "steps")
        self.does = {("round", ""): lambda _run: before_round()}
        for subject in subjects:
            self.does["before", subject.name] = subject.before
            self.does["after", subject.name] = subject.after
        self.failure = None
        self.socket = socket.socket(socket.AF_UNIX)

    def __enter__(self):
        self.socket.bind(self.path)
        self.socket.listen()
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_):
        # Ends the thread's waiting, too.
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()

    def words(self, step, name=""):
        """The command that has a step done."""
        return [sys.executable, "-I", "-S", STEP, self.path, step, name, RUN]

    def _serve(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            with connection, connection.makefile("rw") as stream:
                step, name, number = json.loads(stream.readline())
                stream.write(json.dumps(self._do(step, name, int(number))) + "\n")

    def _do(self, step, name, number):
        """Its numbers, or why it failed: an error of the bench itself is one of its own when it comes back."""
        try:
            return {"figures": self.does[step, name](number) or {}}
        except Exception as reason:
            self.failure = self.failure or reason
            return {"problem": str(reason)}
