"""The bench's own promises: how commands are timed and paired, what a bar asks, what the page shows."""

import os
import random
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from bench.harness import page, pairs, result, statistics  # noqa: E402
from bench.harness.cases import CASES  # noqa: E402
from bench.harness.command import timed  # noqa: E402
from bench.harness.pairs import Plan, Subject  # noqa: E402
from bench.harness.result import Amount, Bar  # noqa: E402
from testbed.errors import Broken  # noqa: E402


class Statistics(unittest.TestCase):
    def test_a_ratio_says_how_many_times_faster_the_first_was(self):
        self.assertEqual(statistics.ratios([1.0, 2.0], [2.0, 1.0]), [2.0, 0.5])

    def test_the_median_of_an_even_number_is_between_the_middle_two(self):
        self.assertEqual(statistics.median([4.0, 1.0, 3.0, 2.0]), 2.5)

    def test_the_interval_covers_the_true_median_about_as_often_as_it_says(self):
        source = random.Random(1)
        hits = 0
        for _ in range(120):
            low, high = statistics.interval([source.gauss(1.0, 0.1) for _ in range(15)])
            hits += low <= 1.0 <= high
        self.assertGreaterEqual(hits, 105)
        self.assertLess(hits, 120)

    def test_one_set_of_times_gives_one_interval(self):
        values = [1.0, 1.1, 0.9, 1.3, 0.8]
        self.assertEqual(statistics.interval(values), statistics.interval(values))


class Commands(unittest.TestCase):
    def test_a_failed_command_is_an_error_with_its_last_words(self):
        with self.assertRaisesRegex(Broken, "exit code 7: no such star"):
            timed(["sh", "-c", "echo no such star >&2; exit 7"])

    def test_a_command_that_does_not_exist_is_named(self):
        with self.assertRaisesRegex(Broken, "there is no such command"):
            timed(["no-such-command-at-all"])

    def test_time_and_cpu_time_are_those_of_the_command(self):
        sample = timed(["sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo $i"])
        self.assertEqual(sample.stdout, "100000\n")
        self.assertGreater(sample.cpu_s, 0)
        self.assertGreaterEqual(sample.wall_s * os.cpu_count() * 1.05, sample.cpu_s)


class Pairs(unittest.TestCase):
    def subject(self, name, seen, after=lambda run: None):
        return Subject(name, name, command=lambda run: ["true"], before=lambda run: seen.append((name, run)), after=after)

    def test_every_round_runs_every_subject_once_and_the_warm_up_is_not_counted(self):
        seen = []
        outcome = pairs.run([self.subject("a", seen), self.subject("b", seen)], Plan(least=4, most=4), "a")
        self.assertEqual(len(outcome.rounds), 4)
        self.assertEqual(sorted(seen), sorted((name, run) for name in "ab" for run in range(5)))
        self.assertGreater(len({tuple(done["order"]) for done in outcome.rounds}), 1)

    def test_a_copy_that_is_not_whole_fails_the_case(self):
        def broken(run):
            raise Broken("not whole")

        with self.assertRaisesRegex(Broken, "not whole"):
            pairs.run([self.subject("a", [], after=broken)], Plan(least=1, most=1), "a")


class Bars(unittest.TestCase):
    def judged(self, mine, other, bar):
        rounds = [{"order": [], "samples": {"me": sample(a), "other": sample(b)}} for a, b in zip(mine, other, strict=True)]
        cast = [Subject("me", "me", command=lambda run: ["me"]), Subject("other", "other", command=lambda run: ["other"])]
        outcome = pairs.Outcome(rounds, {"busy": 0.0, "steal": 0.0})
        return result.of_pairs(outcome, cast, "me", Amount(100, "bytes"), [bar])

    def test_a_median_below_its_bar_is_missed_and_one_above_is_met(self):
        self.assertFalse(self.judged([1.0] * 5, [0.89] * 5, Bar("other", median=0.9))["bars"][0]["met"])
        self.assertTrue(self.judged([1.0] * 5, [0.91] * 5, Bar("other", median=0.9))["bars"][0]["met"])

    def test_a_good_median_does_not_excuse_a_low_end(self):
        other = [1.0] * 3 + [0.5] * 2
        self.assertFalse(self.judged([1.0] * 5, other, Bar("other", median=0.99, low=0.97))["bars"][0]["met"])

    def test_a_ratio_without_a_bar_is_neither_met_nor_missed(self):
        self.assertIsNone(self.judged([1.0], [1.0], Bar("other"))["bars"][0]["met"])


class Page(unittest.TestCase):
    def test_what_did_not_run_is_never_shown_as_met(self):
        with tempfile.TemporaryDirectory() as directory:
            result.write(directory, CASES[0].name, document(state="not run", reason="there is no disk"))
            text = page.markdown(directory)
        self.assertIn("**NOT RUN**: there is no disk", text)
        self.assertEqual(text.count("not measured."), len(CASES) - 1)
        self.assertNotIn("| met |", text)

    def test_a_missing_peer_is_in_the_summary_with_its_reason(self):
        with tempfile.TemporaryDirectory() as directory:
            missing = [{"name": "nfs-cp", "label": "nfs-cp", "reason": "only root may"}]
            told = document(state="done", absent=missing, rounds=[], subjects=[], reference="me", amount={"unit": "bytes"})
            result.write(directory, CASES[0].name, told)
            self.assertIn("| nfs-cp | | | | **NOT RUN**: only root may |", page.markdown(directory))


def sample(wall_s):
    return {"wall_s": wall_s, "cpu_s": 0.0, "peak_rss_bytes": 0}


def document(**fields):
    return {"title": "", "machine": {"memory_bytes": 1 << 30}, "bars": [], **fields}
