"""The bench's own promises: python3 -m unittest discover -s bench/tests"""

import os
import random
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from harness import files, page, pairs, result, statistics  # noqa: E402
from harness.cases import CASES  # noqa: E402
from harness.command import CommandFailed, timed  # noqa: E402
from harness.pairs import Plan, Subject  # noqa: E402
from harness.result import Amount, Bar  # noqa: E402
from servers import SERVERS  # noqa: E402
from servers.process import Unavailable, accepts  # noqa: E402


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
        with self.assertRaisesRegex(CommandFailed, "exit code 7: no such star"):
            timed(["sh", "-c", "echo no such star >&2; exit 7"])

    def test_a_command_that_does_not_exist_is_named(self):
        with self.assertRaisesRegex(CommandFailed, "there is no such command"):
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
            raise CommandFailed("not whole")

        with self.assertRaisesRegex(CommandFailed, "not whole"):
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


class Files(unittest.TestCase):
    def test_equal_files_are_equal_and_one_byte_is_noticed(self):
        with tempfile.TemporaryDirectory() as directory:
            one = files.make_source(os.path.join(directory, "one"), 3 << 20)
            other = os.path.join(directory, "other")
            with open(one, "rb") as source, open(other, "wb") as copy:
                copy.write(source.read())
            self.assertTrue(files.same_bytes(one, other))
            with open(other, "r+b") as copy:
                copy.seek(2 << 20)
                byte = copy.read(1)
                copy.seek(2 << 20)
                copy.write(bytes([byte[0] ^ 1]))
            self.assertFalse(files.same_bytes(one, other))

    def test_a_file_dropped_from_the_page_cache_is_seen_to_be_gone_and_comes_back(self):
        with tempfile.TemporaryDirectory() as directory:
            path = files.make_source(os.path.join(directory, "one"), 4 << 20)
            if files.cached_share([path]) is None:
                self.skipTest("the kernel has no cachestat")
            descriptor = os.open(path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)
            if files.cached_share([path]) > 0:
                self.skipTest("the file system keeps its pages")
            self.assertEqual(files.warm([path]), 1.0)


class Servers(unittest.TestCase):
    def test_each_server_answers_on_loopback_and_is_gone_afterwards(self):
        for name, server in SERVERS.items():
            with self.subTest(name), tempfile.TemporaryDirectory() as directory:
                try:
                    with server(directory) as started:
                        port = getattr(started, "nfs_port", None) or started.port
                        self.assertTrue(accepts(port))
                except Unavailable as reason:
                    self.skipTest(f"{name}: {reason}")
                self.assertFalse(accepts(port))


def sample(wall_s):
    return {"wall_s": wall_s, "cpu_s": 0.0, "peak_rss_bytes": 0}


def document(**fields):
    return {"title": "", "machine": {"memory_bytes": 1 << 30}, "bars": [], **fields}


if __name__ == "__main__":
    unittest.main()
