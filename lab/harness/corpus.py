"""The lab's recordings as data: shrunk, without what tells of the machine, each with its label; and how each is explained.

A label is what was injected and what it cost, by the clock: nothing of it comes from an explanation. An expectation is what the last
accepted program answered, so that a change that makes an answer worse is seen, and says so.
"""

import json
import os
import re
import shutil
import subprocess
import tempfile
from types import SimpleNamespace

from lab.harness import advice, packs, score
from testbed import shell
from testbed.errors import Broken
from testbed.paths import REPOSITORY
from testbed.results import RAW, Results

DIRECTORY = os.path.join(REPOSITORY, "lab", "corpus")
# What `record` made and `make` has not packed yet.
RECORDED = os.path.join(RAW, "corpus")
LABEL = "thalweg.corpus-label/2"
EXPECTATION = "thalweg.corpus-expectation/1"
# By how much shrinking may change what is charged to the causes that were injected.
CHANGED = 0.005
EXPLAIN_TIMEOUT_S = 60
SCRATCH = re.compile(r"/dev/shm/thalweg-(?:lab|ranks)-\d+")
GROUP = re.compile(r"thalweg-(?:lab|ranks)-\d+")
NO_ANSWER = "no answer"
# Of outcomes, the greater is the better; None is a fault too small to be told.
RANKS = {"right": 2, None: 1, "unsure": 1, "wrong": 0, NO_ANSWER: -1}


class Corpus:
    """Labels and expectations in a directory, and recordings below another (the packs are unpacked elsewhere)."""

    def __init__(self, directory, thalweg, recordings=None, fixture=None):
        self.directory = directory
        self.packs = os.path.join(directory, "packs")
        self.recordings = recordings or os.path.join(directory, "recordings")
        self.thalweg = os.path.abspath(thalweg)
        self.fixture = fixture
        # What is wrong with the changes that explanations propose: (recording, in words).
        self.advice_faults = []
        self._recipes = None
        self.labels = Results(os.path.join(directory, "labels.jsonl"), "name", LABEL)
        self.expectations = Results(os.path.join(directory, "expectations.jsonl"), "name", EXPECTATION)

    def path(self, name):
        """Where a recording is."""
        return os.path.join(self.recordings, name)

    def add(self, scenario, recording, label):
        """Shrink a recording and keep it with its label; `Broken` where it cannot be taken."""
        self.shrink(scenario, recording)
        self.labels.put(label)

    def shrink(self, scenario, recording, flags=(), attributes=()):
        """Shrink a recording (`flags` are the example's) into its place; `Broken` where its answer would be another, or it would tell of the machine. The
        attributes that begin with one of `attributes` stay, too."""
        before = self.explain(recording)
        os.makedirs(self.recordings, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.recordings, prefix=".") as scratch:
            made = os.path.join(scratch, "made")
            renames = self._private(self._texts(recording))
            _run([self.fixture, *flags, recording, made, *(f"{old}={new}" for old, new in renames.items())])
            _keep_attributes(recording, made, attributes, renames)
            left = self._private(self._texts(made))
            if left:
                raise Broken(f"it would still say {', '.join(left)}")
            after = self.explain(made)
            off = max((abs(_charged(before, c) - _charged(after, c)) for c in scenario.causes), default=0)
            if off > CHANGED:
                raise Broken(f"shrunk, another {off:.1%} is charged to what was injected")
            shutil.rmtree(self.path(scenario.name), ignore_errors=True)
            os.rename(made, self.path(scenario.name))

    def explain(self, recording):
        """The explanation, as JSON."""
        return json.loads(_run([self.thalweg, "explain", recording, "--json"]))

    def recipes(self):
        """What the program's recipes are."""
        if self._recipes is None:
            self._recipes = json.loads(_run([self.thalweg, "recipes", "--json"]))
        return self._recipes

    def answer(self, label):
        """What is answered of a recording, and whether that is right: a line as expectations have it."""
        try:
            document = self.explain(self.path(label["name"]))
        except Broken as reason:
            return {"name": label["name"], "outcome": NO_ANSWER, "reason": str(reason)}
        self.advice_faults += [(label["name"], words) for words in advice.faults(document, self.recipes)]
        causes = [set(cause.split("|")) for cause in label["causes"]]
        held = SimpleNamespace(causes=causes, places=label["where"], expect={"status": label["status"]})
        named = score.named(document)
        made = {"name": label["name"], "outcome": score.outcome(held, label["truths"], named)}
        made |= {key: named[key] for key in ("status", "cause", "where")}
        made["numbers"] = [number["kind"] for number in document.get("summary", {}).get("numbers", [])]
        return {**made, "shares": [round(_charged(document, of), 3) for of in causes]}

    def _texts(self, recording):
        with tempfile.TemporaryDirectory() as scratch:
            out = os.path.join(scratch, "csv")
            _run([self.thalweg, "export", recording, "--to", "csv", "--output", out])
            tables = [os.path.join(parent, name) for parent, _, names in os.walk(out) for name in names]
            return "\n".join(shell.read(path) or "" for path in [*tables, os.path.join(recording, "meta.json")])

    def _private(self, text):
        """What must not be said, and what is said instead; longest first, so that no part of one is taken for another."""
        found = {scratch: "/lab" for scratch in SCRATCH.findall(text)} | {group: "lab" for group in GROUP.findall(text)}
        places = {REPOSITORY: "/thalweg", os.path.dirname(self.thalweg): "/thalweg/bin", os.path.expanduser("~"): "/home/user"}
        found |= {old: new for old, new in places.items() if old.count("/") >= 1 and len(old) > 4 and old in text}
        return dict(sorted(found.items(), key=lambda pair: -len(pair[0])))


def label(scenario, line, wall_s, build):
    """The label of a scenario: what was injected, and what it costs by the lab's last result of it (`line`)."""
    figures = line["figures"]
    return {
        "name": scenario.name,
        "title": scenario.title,
        "causes": scenario.expect["causes"],
        "where": scenario.places,
        "status": scenario.expect.get("status"),
        "serial": bool(scenario.expect.get("serial", False)),
        "truths": [round(truth, 4) for truth in figures["truths"]],
        "lab_wall_s": {name: wall for name, wall in figures["wall_s"].items() if name in ("fault", "baseline")},
        "repetitions": line["repeated"],
        "wall_s": wall_s,
        "machine": line["machine"],
        "build": build["revision"],
    }


def changes(expected, answers):
    """What is not as expected, as (`worse`, `better`, `changed` or `new`; in words), the worst first."""
    found = []
    for answer in answers:
        before = expected.get(answer["name"])
        if before is None:
            found.append(("new", f"{answer['name']}: {_words(answer)}"))
            continue
        was, now = RANKS[before["outcome"]], RANKS[answer["outcome"]]
        kind = "worse" if now < was else "better" if now > was else "changed"
        if now != was or _words(before) != _words(answer):
            found.append((kind, f"{answer['name']}: {_words(before)}\n          now {_words(answer)}"))
    return sorted(found, key=lambda one: ("worse", "better", "changed", "new").index(one[0]))


def outcomes(answers):
    """How many answers came out how, in words."""
    every = [answer["outcome"] for answer in answers]
    words = {"right": "right", "unsure": "unsure", "wrong": "wrong with confidence", None: "too small to tell", NO_ANSWER: NO_ANSWER}
    return ", ".join(f"{every.count(outcome)} {word}" for outcome, word in words.items() if outcome in every or outcome in ("right", "unsure", "wrong"))


def _words(answer):
    if answer["outcome"] == NO_ANSWER:
        return f"{NO_ANSWER}: {answer['reason']}"
    shares = ", ".join(f"{share:.0%}" for share in answer["shares"])
    charged = f", {shares} charged to what was injected" if shares else ""
    behind = f"; {', '.join(answer['numbers'])}" if answer.get("numbers") else ""
    return f"{answer['outcome'] or 'too small to tell'}: {answer['status']}, {answer['cause']} ({answer['where']}){charged}{behind}"


def _keep_attributes(recording, made, beginnings, renames):
    """Give a shrunk recording those attributes of the whole one that begin so."""
    paths = [os.path.join(directory, "meta.json") for directory in (recording, made)]
    whole, shrunk = (json.loads(shell.read(path)) for path in paths)
    there = {name for name, _ in shrunk["attributes"]}
    for name, value in whole["attributes"]:
        if name not in there and name.startswith(tuple(beginnings)):
            for old, new in renames.items():
                value = value.replace(old, new)
            shrunk["attributes"].append([name, value])
    with open(paths[1], "w", encoding="utf-8") as out:
        json.dump(shrunk, out)


def _run(argv):
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=EXPLAIN_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise Broken(f"{os.path.basename(argv[0])} {argv[1]}: still running after {EXPLAIN_TIMEOUT_S} s") from None
    except OSError as reason:
        raise Broken(f"{argv[0]}: {reason.strerror}") from None
    if done.returncode != 0:
        raise Broken(f"{os.path.basename(argv[0])} {argv[1]}: exit code {done.returncode}: {shell.last_line(done.stderr)}")
    return done.stdout


def _charged(document, causes):
    return sum(entry["share"] for entry in document["critical_path"] if entry["cause"] in causes)
