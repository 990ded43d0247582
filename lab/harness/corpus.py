"""The lab's recordings as a data set: shrunk, without what tells of the machine, each with its label.

A label is what was injected and what it cost, by the clock: nothing of it comes from an explanation.
"""

import json
import os
import re
import shutil
import subprocess
import tempfile
from types import SimpleNamespace

from lab.harness import score
from lab.harness.experiment import SCHEMA as RESULT
from testbed import results, shell
from testbed.errors import Broken
from testbed.paths import REPOSITORY

DIRECTORY = os.path.join(REPOSITORY, "lab", "corpus")
SCHEMA = "thalweg.corpus/1"
MOST_BYTES = 10 << 20
# By how much shrinking may change what is charged to the causes that were injected.
CHANGED = 0.005
SCRATCH = re.compile(r"/dev/shm/thalweg-lab-\d+")
GROUP = re.compile(r"thalweg-lab-\d+")
TABLE = "## The recordings"


class Corpus:
    """A directory with `labels.json`, a page, and a recording for each label."""

    def __init__(self, directory, thalweg, fixture=None):
        self.directory = directory
        self.thalweg = os.path.abspath(thalweg)
        self.fixture = fixture

    def labels(self):
        """What there is, by name."""
        path = os.path.join(self.directory, "labels.json")
        if not os.path.exists(path):
            return {}
        with open(path) as source:
            return {one["name"]: one for one in json.load(source)["recordings"]}

    def path(self, name):
        """Where a recording is."""
        return os.path.join(self.directory, "recordings", name)

    def add(self, scenario, recording, document):
        """Shrink a recording that the lab kept, with the result of the same call of the lab; `Broken` where it cannot be taken."""
        if document is None or document.get("repeated", 0) == 0 or "truths" not in document["figures"]:
            raise Broken("there is no result of it")
        before = self.explain(recording)
        os.makedirs(os.path.dirname(self.path(scenario.name)), exist_ok=True)
        with tempfile.TemporaryDirectory(dir=os.path.dirname(self.path(scenario.name))) as scratch:
            made = os.path.join(scratch, "made")
            renames = [f"{old}={new}" for old, new in self._private(self._texts(recording)).items()]
            shell.run(self.fixture, recording, made, *renames, failure=Broken)
            left = self._private(self._texts(made))
            if left:
                raise Broken(f"it would still say {', '.join(left)}")
            off = max((abs(_charged(before, c) - _charged(self.explain(made), c)) for c in scenario.causes), default=0)
            if off > CHANGED:
                raise Broken(f"shrunk, another {off:.1%} is charged to what was injected")
            shutil.rmtree(self.path(scenario.name), ignore_errors=True)
            os.rename(made, self.path(scenario.name))
        return _label(scenario, document)

    def explain(self, recording):
        """The explanation, as JSON."""
        return json.loads(shell.run(self.thalweg, "explain", recording, "--json", failure=Broken))

    def judged(self, label):
        """What the explanation of a recording names, and whether that is right."""
        told = SimpleNamespace(causes=[set(c.split("|")) for c in label["causes"]], places=label["where"], expect={"status": label["status"]})
        named = score.named(self.explain(self.path(label["name"])))
        return named, score.outcome(told, label["truths"], named)

    def write(self, labels):
        """Write the labels and the page's table."""
        told = {"schema": SCHEMA, "license": "MIT OR Apache-2.0", "recordings": [labels[name] for name in sorted(labels)]}
        results.write_text(os.path.join(self.directory, "labels.json"), json.dumps(told, indent=1) + "\n")
        page = os.path.join(self.directory, "README.md")
        head = (shell.read(page) or "").partition(TABLE)[0].rstrip()
        rows = [f"{head}\n\n{TABLE}\n", "| recording | what happens | cause | its share of the time | KiB |", "|---|---|---|---|---|"]
        results.write_text(page, "\n".join(rows + [self._row(labels[name]) for name in sorted(labels)]) + "\n")

    def size(self, name=None):
        """How many bytes a recording has, or all."""
        top = self.path(name) if name else os.path.join(self.directory, "recordings")
        return sum(os.path.getsize(os.path.join(parent, file)) for parent, _, files in os.walk(top) for file in files)

    def _row(self, label):
        name, causes = label["name"], ", ".join(label["causes"]).replace("|", " or ") or "none"
        truths = ", ".join(f"{truth:.0%}" for truth in label["truths"]) or "–"
        return f"| [{name}](../scenarios/{name}.toml) | {label['title']} | {causes} | {truths} | {self.size(name) / 1024:.0f} |"

    def _texts(self, recording):
        with tempfile.TemporaryDirectory() as scratch:
            out = os.path.join(scratch, "csv")
            subprocess.run([self.thalweg, "export", recording, "--to", "csv", "--output", out], check=True, capture_output=True)
            tables = [os.path.join(parent, name) for parent, _, names in os.walk(out) for name in names]
            return "\n".join(shell.read(path) or "" for path in [*tables, os.path.join(recording, "meta.json")])

    def _private(self, text):
        """What must not be said, and what is said instead; longest first, so that no part of one is taken for another."""
        found = {scratch: "/lab" for scratch in SCRATCH.findall(text)} | {group: "lab" for group in GROUP.findall(text)}
        places = {REPOSITORY: "/thalweg", os.path.dirname(self.thalweg): "/thalweg/bin", os.path.expanduser("~"): "/home/user"}
        found |= {old: new for old, new in places.items() if old.count("/") >= 1 and len(old) > 4 and old in text}
        return dict(sorted(found.items(), key=lambda pair: -len(pair[0])))


def of_the_lab(directory, name):
    """The lab's result of a scenario."""
    return results.read(directory, name, RESULT)


def _label(scenario, document):
    figures = document["figures"]
    return {
        "name": scenario.name,
        "title": scenario.title,
        "story": scenario.story.strip(),
        "injected": document["injected"],
        "causes": scenario.expect["causes"],
        "where": scenario.places,
        "status": scenario.expect.get("status"),
        "serial": bool(scenario.expect.get("serial", False)),
        "truths": [round(truth, 4) for truth in figures["truths"]],
        "wall_s": {name: wall for name, wall in figures["wall_s"].items() if name in ("fault", "baseline")},
        "repetitions": document["repeated"],
        "busy_before": document["busy_before"],
        "machine": {key: document["machine"].get(key) for key in ("processor", "cores", "kernel", "memory_bytes")},
        "revision": document["build"]["revision"],
    }


def _charged(document, causes):
    return sum(entry["share"] for entry in document["critical_path"] if entry["cause"] in causes)
