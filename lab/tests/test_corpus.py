"""What the corpus promises: every recording has its label, its scenario and what is expected of it; it is small; a worse answer is seen."""

import contextlib
import importlib.machinery
import importlib.util
import io
import json
import os
import sys
import tempfile
import unittest
from types import SimpleNamespace
from unittest import mock

LAB = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.dirname(LAB))

from lab.harness import corpus, packs, page, recording, scenario  # noqa: E402
from lab.harness.recording import Recorder  # noqa: E402
from testbed.errors import Broken, NotRun  # noqa: E402
from testbed.paths import REPOSITORY  # noqa: E402

LABEL = {"name": "one", "title": "t", "causes": ["client.read|client.memory"], "where": ["loop"], "status": None, "truths": [0.9]}


def command(name):
    loader = importlib.machinery.SourceFileLoader(f"corpus_{name}", os.path.join(LAB, "corpus", name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(f"corpus_{name}", loader))
    loader.exec_module(module)
    return module


def run(name, *words):
    """A command's exit code and what it printed."""
    said = io.StringIO()
    with mock.patch.object(sys, "argv", [name, *words]), contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        return command(name).main(), said.getvalue()


class TheCorpus(unittest.TestCase):
    def setUp(self):
        self.corpus = corpus.Corpus(corpus.DIRECTORY, "thalweg")

    def test_each_recording_has_a_label_that_says_what_its_scenario_says(self):
        labels = self.corpus.labels.all()
        self.assertEqual(sorted(labels), packs.names(self.corpus.packs))
        for one in scenario.load_all(os.path.join(LAB, "scenarios"), sorted(labels)):
            label = labels[one.name]
            self.assertEqual((label["causes"], label["where"]), (one.expect["causes"], one.places), one.name)
            self.assertEqual(len(label["truths"]), len(one.faults), one.name)

    def test_each_recording_has_an_expectation(self):
        self.assertEqual(set(self.corpus.labels.all()), set(self.corpus.expectations.all()))

    def test_it_is_small_and_only_packs_are_in_git(self):
        self.assertLessEqual(packs.size(self.corpus.packs), packs.MOST_BYTES)
        self.assertFalse(os.path.exists(os.path.join(corpus.DIRECTORY, "recordings")))


class Packs(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory, self.recordings = directory.name, os.path.join(directory.name, "recordings")

    def record(self, name, text, mtime=1):
        path = os.path.join(self.recordings, name, "spans", "host=a")
        os.makedirs(path, exist_ok=True)
        with open(os.path.join(path, "part-0.parquet"), "w") as out:
            out.write(text)
        os.utime(os.path.join(path, "part-0.parquet"), (mtime, mtime))

    def test_what_is_packed_comes_out_again_and_only_what_is_asked_for(self):
        for name in ("cp-a", "cp-b", "dd-a"):
            self.record(name, f"of {name}")
        packed, out = os.path.join(self.directory, "packs"), os.path.join(self.directory, "out")
        packs.write(packed, self.recordings, ["cp-a", "cp-b", "dd-a"])
        self.assertEqual((sorted(os.listdir(packed)), packs.names(packed)), (["cp.tar.xz", "dd.tar.xz"], ["cp-a", "cp-b", "dd-a"]))
        packs.unpack(packed, out, ["dd-a"])
        self.assertEqual(os.listdir(out), ["dd-a"])
        with open(os.path.join(out, "dd-a", "spans", "host=a", "part-0.parquet")) as source:
            self.assertEqual(source.read(), "of dd-a")
        packs.write(packed, self.recordings, ["cp-a"])
        self.assertEqual(packs.names(packed), ["cp-a"])

    def test_the_same_recordings_make_the_same_bytes(self):
        self.record("cp-a", "same", mtime=1)
        first = packs.pack(self.recordings, ["cp-a"])
        self.record("cp-a", "same", mtime=1000)
        self.assertEqual(packs.pack(self.recordings, ["cp-a"]), first)

    def test_nothing_is_written_when_there_is_too_much(self):
        self.record("cp-a", "x")
        with mock.patch.object(packs, "MOST_BYTES", 10), self.assertRaisesRegex(Broken, "MiB"):
            packs.write(os.path.join(self.directory, "packs"), self.recordings, ["cp-a"])
        self.assertFalse(os.path.exists(os.path.join(self.directory, "packs")))


class Scoring(unittest.TestCase):
    """`score` on a corpus of one recording, by a program that answers what it is given."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name
        recordings = os.path.join(self.directory, "made")
        os.makedirs(os.path.join(recordings, "one"))
        with open(os.path.join(recordings, "one", "meta.json"), "w") as out:
            out.write("{}")
        held = corpus.Corpus(self.directory, "thalweg")
        packs.write(held.packs, recordings, ["one"])
        held.labels.put(LABEL)

    def program(self, cause="client.read", status="limited", where="/x on loop0", code=0):
        verdict = {"status": status, "cause": cause, "where": where, "sentence": f"It was {where}."}
        told = {"verdict": verdict, "critical_path": [{"cause": cause, "share": 0.9, "where": where}]}
        path = os.path.join(self.directory, "thalweg")
        with open(path, "w") as out:
            out.write(f"#!/bin/sh\ntest -e $2/meta.json || exit 3\ncat <<'END'\n{json.dumps(told)}\nEND\nexit {code}\n")
        os.chmod(path, 0o755)
        return path

    def score(self, *words, **answer):
        return run("score", "--directory", self.directory, "--program", self.program(**answer), *words)

    def outcome(self, **answer):
        self.score("--accept", **answer)
        return corpus.Corpus(self.directory, "thalweg").expectations.get("one")["outcome"]

    def test_right_is_a_cause_of_the_label_at_its_place(self):
        self.assertEqual(self.outcome(cause="client.memory"), "right")
        self.assertEqual(self.outcome(where="/x on nvme0"), "wrong")
        self.assertEqual(self.outcome(cause="client.write"), "wrong")
        self.assertEqual(self.outcome(cause="client.write", status="unsure"), "unsure")
        self.assertEqual(self.outcome(code=1), corpus.NO_ANSWER)

    def test_as_expected_passes_and_worse_fails_until_it_is_accepted(self):
        self.assertEqual(self.score("--accept")[0], 0)
        self.assertEqual(self.score()[0], 0)
        for worse in ({"cause": "client.write"}, {"status": "unsure"}, {"code": 1}):
            code, said = self.score(**worse)
            self.assertEqual(code, 1, worse)
            self.assertIn("worse     one: right", said)
            self.assertIn("--accept", said)
        self.assertEqual(self.score("--accept", cause="client.write")[0], 0)
        code, said = self.score(cause="client.write")
        self.assertEqual((code, "as expected" in said), (0, True))

    def test_better_and_otherwise_changed_are_said_and_pass(self):
        self.score("--accept", cause="client.write")
        code, said = self.score()
        self.assertEqual((code, "better    one: wrong" in said), (0, True))
        self.score("--accept")
        code, said = self.score(where="/y on loop0")
        self.assertEqual((code, "changed   one: right" in said), (0, True))

    def test_what_is_expected_of_nothing_yet_is_said(self):
        code, said = self.score()
        self.assertEqual((code, "new       one: right" in said), (0, True))

    def test_make_test_gets_its_counts(self):
        self.score("--accept")
        counts = os.path.join(self.directory, "counts")
        self.score("--counts", counts, cause="client.write")
        with open(counts) as source:
            self.assertEqual(source.read().split()[:4], ["corpus", "0", "1", "0"])

    def test_the_page_says_what_is_expected(self):
        self.score("--accept")
        held = corpus.Corpus(self.directory, "thalweg")
        self.assertIn("1 recordings, 1 right, 0 unsure, 0 wrong with confidence", page.of_corpus(held))

    def test_a_recording_anew_replaces_the_one_that_is_packed(self):
        source = os.path.join(self.directory, "recorded")
        os.makedirs(os.path.join(source, "recordings", "cp-source-disk"))
        with open(os.path.join(source, "recordings", "cp-source-disk", "meta.json"), "w") as out:
            out.write("{}")
        corpus.Corpus(source, "thalweg").labels.put({**LABEL, "name": "cp-source-disk"})
        code, said = run("make", "--directory", self.directory, "--from", source)
        held = corpus.Corpus(self.directory, "thalweg")
        # `one` is no scenario that there is.
        self.assertEqual((code, packs.names(held.packs), list(held.labels.all())), (0, ["cp-source-disk"], ["cp-source-disk"]), said)


class Recording(unittest.TestCase):
    def setUp(self):
        self.one = scenario.load(os.path.join(LAB, "scenarios", "cp-source-disk.toml"))
        self.line = {"figures": {"truths": [0.9], "wall_s": {"fault": 2.0, "baseline": 0.2}}, "repeated": 2, "machine": {}}

    def recorder(self, held, lines):
        made = Recorder("/nowhere/thalweg", "/nowhere/relay", held, [self.one], lines)
        made.build = {"revision": "abc", "thalweg_sha256": "1"}
        return made

    def test_a_scenario_without_a_result_is_not_recorded(self):
        for lines in ({}, {self.one.name: {"figures": {}}}):
            with self.assertRaisesRegex(Broken, "no result"):
                self.recorder(None, lines)._record(None, self.one)

    def test_a_run_in_which_the_fault_was_not_at_work_or_something_else_was_is_not_kept(self):
        for wall_s, words in ((0.3, "not at work"), (5.0, "something else")):
            with self.assertRaisesRegex(Broken, words):
                self.recorder(None, {})._keep(self.one, SimpleNamespace(wall_s=wall_s, recording=None), self.line, 0.0)

    def test_nothing_is_recorded_beside_other_work_unless_it_is_asked_for(self):
        recorder = self.recorder(None, {})
        for busy, shares, told in ((False, [0.9, 0.9, 0.1], 0.1), (True, [0.9], 0.9)):
            recorder.busy = busy
            with mock.patch.object(recording.machine, "busy_share", side_effect=shares):
                self.assertEqual(recorder._quiet(), told)
        recorder.busy = False
        with mock.patch.object(recording.machine, "busy_share", return_value=0.9), self.assertRaisesRegex(NotRun, "busy for 90%"):
            recorder._quiet()

    def test_what_this_program_has_recorded_is_left_out(self):
        with tempfile.TemporaryDirectory() as directory:
            held = corpus.Corpus(directory, "thalweg")
            recorder = self.recorder(held, {})
            self.assertFalse(recorder.is_done(self.one.name))
            held.labels.put({**corpus.label(self.one, self.line, 2.0, recorder.build), "program": "1"})
            self.assertFalse(recorder.is_done(self.one.name), "its recording is not there")
            os.makedirs(held.path(self.one.name))
            self.assertTrue(recorder.is_done(self.one.name))
            recorder.build["thalweg_sha256"] = "2"
            self.assertFalse(recorder.is_done(self.one.name))

    def test_what_tells_of_the_machine_is_found_and_the_longest_first(self):
        made = corpus.Corpus("/nowhere", os.path.join(REPOSITORY, "target", "release", "thalweg"))
        text = f"/dev/shm/thalweg-lab-12/source {REPOSITORY}/target/release/thalweg cgroup /thalweg-lab-12-server"
        found = made._private(text)
        for old, new in found.items():
            text = text.replace(old, new)
        self.assertEqual(text, "/lab/source /thalweg/bin/thalweg cgroup /lab-server")
        self.assertEqual(made._private(text), {})


if __name__ == "__main__":
    unittest.main()
