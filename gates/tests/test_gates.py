"""The gates' own parts: what counts as passed, what is expected to fail, how other people's output is read."""

import os
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.dirname(HERE), os.path.join(os.path.dirname(os.path.dirname(HERE)), "bench")]
sys.dont_write_bytecode = True

from gatehouse import gate, page, place, shell  # noqa: E402
from gatehouse.case import Case, NotRun, Wrong, attempt, counts  # noqa: E402
from gatehouse.expected import Expected  # noqa: E402

SUITES = os.path.join(os.path.dirname(HERE), "suites")

EXPECTED = """
[[expected]]
gate = "one"
cases = ["a", "b"]
why = "it is
not there"
"""


def raising(error):
    """A function that fails so."""

    def function():
        raise error

    return function


class Cases(unittest.TestCase):
    def test_what_a_case_raises_says_how_it_ended(self):
        self.assertEqual(attempt("c", lambda: 7).checks, 7)
        self.assertEqual(attempt("c", lambda: None).state, "passed")
        self.assertEqual(attempt("c", raising(NotRun("no"))).state, "skipped")
        self.assertEqual(attempt("c", raising(Wrong("bytes differ"))).reason, "bytes differ")
        self.assertEqual(attempt("c", raising(OSError(5, "input/output"))).state, "failed")
        self.assertEqual(attempt("c", raising(KeyError("a gate's own mistake"))).state, "failed")

    def test_an_expected_failure_counts_and_one_that_passes_is_a_failure(self):
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as out:
            out.write(EXPECTED.replace("is\nnot", "is not"))
            out.flush()
            expected = Expected(out.name)
        self.assertEqual(expected.judge("one", Case("a", "failed", "EIO")).state, "expected")
        self.assertEqual(expected.judge("one", Case("a", "passed")).state, "failed")
        self.assertEqual(expected.judge("one", Case("a", "skipped")).state, "skipped")
        self.assertEqual(expected.judge("one", Case("c", "failed")).state, "failed")
        self.assertEqual(expected.judge("other", Case("a", "failed")).state, "failed")
        self.assertEqual(expected.of("one"), ["a", "b"])

    def test_every_suite_says_what_it_is(self):
        found = gate.load_all(SUITES)
        self.assertGreater(len(found), 10)
        for suite in found:
            self.assertTrue(suite.title and callable(suite.module.cases), suite.name)
        with self.assertRaises(ValueError):
            gate.load_all(SUITES, ["no-such-gate"])

    def test_a_page_names_what_failed_and_what_was_not_run(self):
        suite = gate.load_all(SUITES, ["fsx"])[0]
        self.assertTrue(page.line(suite, [Case("x", "failed", "why")], 1).startswith("FAILED"))
        self.assertIn("no fuse", page.line(suite, [Case("x", "skipped", "no fuse")], 1))
        self.assertEqual(counts([Case("x", "failed"), Case("y", "passed")])["failed"], 1)


class Programs(unittest.TestCase):
    def test_pjdfstests_lines_are_cases_and_what_follows_is_the_reason(self):
        suite = gate.load_all(SUITES, ["pjdfstest"])[0]
        text = "$ pjdfstest\nunlink::ok  ok\nopen::bad  FAILED\n\tassertion failed: ENOENT\nlink::erofs skipped\n\tnot allowed\n\nSummary: x"
        cases = list(suite.module.read(text))
        self.assertEqual([case.state for case in cases], ["passed", "failed", "skipped"])
        self.assertIn("ENOENT", cases[1].reason)

    def test_a_program_that_is_too_slow_is_ended_with_what_it_forked(self):
        with tempfile.TemporaryDirectory() as scratch:
            log = os.path.join(scratch, "log")
            done = shell.run(["sh", "-c", "echo begun; sleep 1000 & wait"], log, 0.2)
            self.assertIsNone(done.code)
            self.assertEqual(done.last_words(1), "begun")

    def test_mount_points_are_read_without_asking_a_file_system(self):
        self.assertIn("/", place.mount_points())
        self.assertNotEqual(place.file_system("/proc/self"), "?")


if __name__ == "__main__":
    unittest.main()
