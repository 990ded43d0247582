"""What the corpus promises: every recording has its label and its scenario, it is small, and answers are judged by the labels."""

import json
import os
import sys
import tempfile
import unittest

LAB = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.dirname(LAB))

from lab.harness import corpus, scenario  # noqa: E402
from testbed.errors import Broken  # noqa: E402
from testbed.paths import REPOSITORY  # noqa: E402

LABEL = {"name": "one", "title": "t", "causes": ["client.read|client.memory"], "where": ["loop"], "status": None, "truths": [0.9]}


class TheCorpus(unittest.TestCase):
    def setUp(self):
        self.corpus = corpus.Corpus(corpus.DIRECTORY, "thalweg")

    def test_each_label_has_a_recording_and_says_what_its_scenario_says(self):
        labels = self.corpus.labels()
        self.assertEqual(sorted(labels), sorted(os.listdir(os.path.join(corpus.DIRECTORY, "recordings"))))
        for one in scenario.load_all(os.path.join(LAB, "scenarios"), sorted(labels)):
            label = labels[one.name]
            self.assertEqual((label["causes"], label["where"]), (one.expect["causes"], one.places), one.name)
            self.assertEqual(len(label["truths"]), len(one.faults), one.name)
            self.assertTrue(os.path.isfile(os.path.join(self.corpus.path(one.name), "meta.json")), one.name)

    def test_it_is_small(self):
        self.assertLess(self.corpus.size(), corpus.MOST_BYTES)

    def test_the_page_names_every_recording(self):
        with open(os.path.join(corpus.DIRECTORY, "README.md")) as source:
            page = source.read()
        for name in self.corpus.labels():
            self.assertIn(f"[{name}]", page)


class Answers(unittest.TestCase):
    def judged(self, cause, where, status="limited"):
        verdict = {"status": status, "cause": cause, "where": where, "sentence": f"It was {where}."}
        told = {"verdict": verdict, "critical_path": [{"cause": cause, "share": 0.9, "where": where}]}
        with tempfile.TemporaryDirectory() as directory:
            program = os.path.join(directory, "thalweg")
            with open(program, "w") as out:
                out.write(f"#!/bin/sh\ncat <<'END'\n{json.dumps(told)}\nEND\n")
            os.chmod(program, 0o755)
            return corpus.Corpus(directory, program).judged(LABEL)[1]

    def test_right_is_a_cause_of_the_label_at_its_place(self):
        self.assertEqual(self.judged("client.memory", "/x on loop0"), "right")
        self.assertEqual(self.judged("client.read", "/x on nvme0"), "wrong")
        self.assertEqual(self.judged("client.write", "/x on loop0"), "wrong")
        self.assertEqual(self.judged("client.write", "/x on loop0", "unsure"), "unsure")


class Making(unittest.TestCase):
    def test_what_tells_of_the_machine_is_found_and_the_longest_first(self):
        made = corpus.Corpus("/nowhere", os.path.join(REPOSITORY, "target", "release", "thalweg"))
        text = f"/dev/shm/thalweg-lab-12/source {REPOSITORY}/target/release/thalweg cgroup /thalweg-lab-12-server"
        found = made._private(text)
        for old, new in found.items():
            text = text.replace(old, new)
        self.assertEqual(text, "/lab/source /thalweg/bin/thalweg cgroup /lab-server")
        self.assertEqual(made._private(text), {})

    def test_a_recording_without_a_result_is_not_taken(self):
        for document in (None, {"repeated": 0, "figures": {}}):
            with self.assertRaises(Broken):
                corpus.Corpus("/nowhere", "thalweg").add(None, "/nowhere", document)


if __name__ == "__main__":
    unittest.main()
