"""Shards and what is kept: no shard is too long, none loses a scenario, and a line has all that the page shows."""

import os
import sys
import tempfile
import unittest
from types import SimpleNamespace
from unittest import mock

LAB = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.dirname(LAB))

from lab.harness import experiment, kept, page, scenario, score  # noqa: E402
from lab.harness.experiment import Experiment  # noqa: E402
from testbed import shards  # noqa: E402

SCENARIOS = os.path.join(LAB, "scenarios")


def lines(**took):
    return {name: {"took_s": seconds, "measured": "2026-01-01T00:00Z"} for name, seconds in took.items()}


def measured(known, shard, when):
    """The results after a shard has run, each a little slower."""
    return known | {name: {"took_s": known[name]["took_s"] * 1.1, "measured": when, "shard": shard.name} for name in shard.names}


class Shards(unittest.TestCase):
    def test_every_scenario_there_is_lies_in_one_shard_of_at_most_25_minutes(self):
        names = [one.name for one in scenario.load_all(SCENARIOS)]
        made = shards.deal(names, kept.results().all())
        self.assertEqual(sorted(name for shard in made for name in shard.names), sorted(names))
        self.assertLessEqual(max(shard.seconds for shard in made), 25 * 60)

    def test_the_longest_are_dealt_first_and_loads_are_alike(self):
        made = shards.deal("abcdef", lines(a=10, b=40, c=20, d=60, e=30, f=50), 2)
        self.assertEqual([shard.seconds for shard in made], [110, 100])

    def test_the_oldest_shard_is_next_and_all_have_been_measured_after_as_many_calls(self):
        known = lines(**{f"s{number}": 100 + 7 * number % 50 for number in range(30)})
        count = len(shards.deal(known, known))
        self.assertGreater(count, 1)
        for call in range(count):
            shard = shards.next_of(shards.deal(known, known), known)
            known = measured(known, shard, f"2026-02-0{call + 1}T00:00Z")
        self.assertEqual([name for name, line in known.items() if line["measured"] < "2026-02"], [])

    def test_what_was_never_measured_makes_its_shard_the_oldest(self):
        known = lines(a=700, b=600, c=650)
        made = shards.deal([*known, "new"], known, 3)
        self.assertIn("new", shards.next_of(made, known).names)

    def test_a_shard_that_has_outgrown_the_limit_is_dealt_anew(self):
        known = {name: {**line, "shard": "1/2"} for name, line in lines(a=800, b=800, c=100).items()}
        self.assertLessEqual(max(shard.seconds for shard in shards.deal(known, known)), shards.LIMIT_S)

    def test_a_shard_that_there_is_not_is_an_error(self):
        for wrong in ("0/3", "4/3", "x", "1", "/"):
            with self.assertRaisesRegex(ValueError, "K/N"):
                shards.count_of(wrong)
        self.assertEqual((shards.count_of("2/3"), shards.count_of("next")), (3, None))


class Repetitions(unittest.TestCase):
    """Two, and five where verdicts differ."""

    def runs(self, causes, last=None):
        arguments = SimpleNamespace(timing=False, quick=False, repetitions=None, budget=60, method=None, keep=None, keep_all=False)
        one = scenario.load(os.path.join(SCENARIOS, "cp-source-disk.toml"))
        told = iter(causes)

        def explain(run):
            cause = next(told)
            verdict = {"status": "limited", "cause": cause, "where": "loop0", "sentence": "loop0"}
            path = [{"cause": cause, "share": 0.9, "where": "loop0"}]
            run.explanation = {"verdict": verdict, "critical_path": path, "what_if": [], "dropped_events": 0, "model": {}}
            run.explained_in_s = 0.0

        def run(variant, recorded):
            return SimpleNamespace(wall_s=1.0 if variant.name == "fault" else 0.1, recording=None, explanation=None, notes=[])

        fixture = mock.MagicMock()
        fixture.__enter__.return_value = SimpleNamespace(run=run, explain=explain)
        running = Experiment(SimpleNamespace(thalweg="thalweg"), arguments)
        with mock.patch.object(experiment, "Fixture", lambda *_: fixture), mock.patch.object(Experiment, "_try_others", lambda *_: None):
            with mock.patch.object(experiment.machine, "busy_share", lambda _: 0.0), mock.patch.object(experiment.shutil, "rmtree"):
                document = running.of(one, last)
        return document["repeated"], document["repeat"]

    def test_two_where_they_are_alike(self):
        self.assertEqual(self.runs(["client.read"] * 5), (2, 2))

    def test_five_where_they_differ(self):
        self.assertEqual(self.runs(["client.read", "client.write"] * 3), (5, 5))

    def test_five_where_they_differed_the_last_time(self):
        last = {"figures": {"named": [{"status": "limited", "cause": cause} for cause in ("client.read", "client.write")]}}
        self.assertEqual(self.runs(["client.read"] * 5, last), (5, 5))


class Lines(unittest.TestCase):
    def test_a_line_has_all_that_the_page_shows(self):
        one = scenario.load(os.path.join(SCENARIOS, "cp-source-disk.toml"))
        verdict = {"status": "limited", "cause": "client.read", "where": "/x on loop0", "sentence": "It was /x on loop0."}
        explanation = {"verdict": verdict, "critical_path": [{"cause": "client.read", "share": 0.9, "where": "/x on loop0"}]}
        explanation |= {"what_if": [{"id": "device.read.x2", "predicted_wall_s": 1.1}], "dropped_events": 0, "model": {}}
        told = score.figures(one, {"fault": [2.0], "baseline": [0.2], "change": [1.1]}, [explanation])
        document = {"scenario": one.name, "state": "passed", "causes": ["client.read"], "serial": True, "predicts": True, "repeat": 2, "figures": told}
        document |= {"machine": {"memory_bytes": 1 << 30}, "build": {"revision": "abc1234"}, "checks": score.checks(one, told), "runs": [1]}
        document |= {"others": {"proc": {"named": verdict, "outcome": "right"}}, "rules": {"none": {"strength": 0.0, "outcome": "wrong"}}}
        line = kept.line(document)
        self.assertEqual(page._row(line), page._row(document))
        self.assertEqual(page.score.overall([line]), page.score.overall([document]))
        self.assertEqual(page.score.by_recorder([line]), page.score.by_recorder([document]))
        self.assertIn("| abc1234 | passed |", page._row(line))
        self.assertNotIn("runs", line)

    def test_git_holds_one_line_for_each_scenario_and_no_raw_result(self):
        there = {one.name for one in scenario.load_all(SCENARIOS)}
        self.assertEqual(set(kept.results().all()) - there, set())
        with tempfile.TemporaryDirectory() as directory:
            self.assertEqual(kept.results(os.path.join(directory, "r.jsonl")).raw, os.path.join(directory, "raw"))


if __name__ == "__main__":
    unittest.main()
