"""One command: recorded and explained as its user would have it, and what the answer proposes followed to the letter, in turn with the command as it was."""

import json
import os
import random
import shlex
import statistics
import subprocess
import time

from testbed import shell
from testbed.errors import Broken

TIMEOUT_S = 120
# Pairs of runs; more where they are short, since those vary more.
PAIRS = 5
PAIRS_OF_SHORT = 7
SHORT_S = 1.0


class Trial:
    """The runs of one command at its place."""

    def __init__(self, place, program, work, method=None, before=lambda argv: argv):
        self.place, self.program, self.work = place, program, work
        self.how = ["--method", method] if method else []
        self.before = before
        self.words = place.command.words(place.directory)

    def explained(self):
        """Recorded once: the text as the terminal has it, the document, and where the recording is."""
        recording, told = (os.path.join(self.work, name) for name in (f"{self.place.command.name}.thw", "answer.txt"))
        self.place.restore()
        argv = [self.program, "explain", *self.how, "--to", told, "-o", recording, "--", *self.words]
        self._run(self.before(self.place.argv(argv)), "its explanation")
        document = json.loads(self._run([self.program, "explain", "--json", recording], "the explanation as JSON"))
        with open(told) as answer:
            return answer.read().rstrip().splitlines(), document, recording

    def followed(self, change, pairs=None):
        """The command as it was and with the change made, in turn; the wall times of both."""
        before, after = [], []
        for words in (self.words, change["command"]):
            self._timed(words)
        wanted = pairs or PAIRS
        rng = random.Random(1)
        while len(before) < wanted:
            both = [(self.words, before), (change["command"], after)]
            rng.shuffle(both)
            for words, times in both:
                times.append(self._timed(words))
            if len(before) == 1 and not pairs and before[0] < SHORT_S:
                wanted = PAIRS_OF_SHORT
        return before, after

    def _timed(self, words):
        self.place.restore()
        begun = time.monotonic()
        done = subprocess.run(self.place.argv(words), cwd=self.place.directory, capture_output=True, stdin=subprocess.DEVNULL, timeout=TIMEOUT_S, check=False, text=True, errors="replace")
        took = time.monotonic() - begun
        if done.returncode:
            raise Broken(f"`{shlex.join(words)}` ended with {done.returncode}: {shell.last_line(done.stderr + done.stdout)}")
        return took

    def _run(self, argv, what):
        """A command of ours."""
        done = subprocess.run(argv, cwd=self.place.directory, capture_output=True, stdin=subprocess.DEVNULL, timeout=TIMEOUT_S, check=False, text=True, errors="replace")
        if done.returncode:
            raise Broken(f"{what}: exit code {done.returncode}: {shell.last_line(done.stderr)}")
        return done.stdout


def exact_changes(document):
    """Every change of an answer that is a command, predictions first; at most one for each command."""
    found, seen = [], [document["command"]]
    for one in document.get("what_if", []):
        if one.get("command") and one["command"] not in seen:
            seen.append(one["command"])
            found.append({"kind": "what_if", "id": one["id"], "says": one["how"], "predicted_s": one["predicted_wall_s"], "bounded": one["basis"] == "bounded", **_of(one)})
    for one in document.get("advice", []):
        if one.get("command") and one["command"] not in seen:
            seen.append(one["command"])
            found.append({"kind": "advice", "id": one["cause"], "says": one["says"], **_of(one)})
    return found


def _of(one):
    return {"command": one["command"], "gives_up": one.get("gives_up")}


def outcome(change, wall_s, before, after):
    """What a followed change brought. What was predicted is a ratio: the recorded run stood alone, at another time than these."""
    before_s = statistics.median(before)
    ratio = statistics.median(b / a for a, b in zip(before, after, strict=True))
    made = {**change, "before_s": before_s, "achieved_s": before_s * ratio, "pairs": len(before)}
    if "predicted_s" in change:
        predicted = change["predicted_s"] / wall_s * before_s
        made |= {"predicted_s": predicted, "error": predicted / made["achieved_s"] - 1}
    return made
