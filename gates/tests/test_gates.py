"""The gates' own parts: what counts as passed, what is expected to fail, how other people's output is read."""

import os
import subprocess
import sys
import tempfile
import time
import unittest

GATES = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.dirname(GATES))

from gates.harness import gate, page, result  # noqa: E402
from gates.harness.case import Case, Done, attempt, counts  # noqa: E402
from gates.harness.expected import Expected  # noqa: E402
from gates.harness.side_by_side import side_by_side  # noqa: E402
from testbed.errors import Broken, NotRun  # noqa: E402

SUITES = os.path.join(GATES, "suites")

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
        self.assertEqual(attempt("c", raising(Broken("bytes differ"))).reason, "bytes differ")
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
        self.assertEqual(expected.judge("one", Case("b", "failed", "EIO")).reason, "it is not there (EIO)")

    def test_gates_run_side_by_side_and_each_ends_with_a_result(self):
        def work(name):
            if name == "dies":
                os._exit(3)
            if name == "hangs":
                time.sleep(60)
            return [Case(name, "passed")], {"where": name}

        names, ended = [f"gate {number}" for number in range(12)], []
        for name, cases, told, _ in side_by_side(["hangs", "dies", *names], 3, work, limit_s=1.0):
            # What a program prints is read to its end, whatever is forked meanwhile.
            self.assertEqual(subprocess.run(["echo", name], capture_output=True, text=True, check=True).stdout, f"{name}\n")
            ended.append((name, cases[0].state, cases[0].reason, told))
        self.assertCountEqual(
            ended,
            [
                ("hangs", "failed", "not done after 1 s", {}),
                ("dies", "failed", "its process ended with code 3", {}),
                *((name, "passed", "", {"where": name}) for name in names),
            ],
        )

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


class Results(unittest.TestCase):
    def test_a_line_counts_every_case_and_names_those_that_did_not_pass(self):
        suite = gate.load_all(SUITES, ["fsx"])[0]
        cases = [Case("x", "failed", "EIO"), Case("y", "passed"), Case("z", "skipped", "no fuse")]
        document = result.document(suite, {"form": "long"}, cases, 1.0)
        with tempfile.TemporaryDirectory() as directory:
            table, path = result.results(os.path.join(directory, "results.jsonl")), os.path.join(directory, "page.md")
            table.put(result.line(document), document)
            page.write(path, result.read_all(table, [suite]))
            with open(path) as source:
                text = source.read()
            self.assertEqual([case["name"] for case in table.get("fsx")["cases"]], ["x", "z"])
        self.assertIn("| 1 | 1 | – | 1 | – | 1 |", text)
        self.assertIn("- **fsx** `x`: EIO", text)
        self.assertIn("- **fsx** `z`: no fuse", text)


class Programs(unittest.TestCase):
    def test_pjdfstests_lines_are_cases_and_what_follows_is_the_reason(self):
        suite = gate.load_all(SUITES, ["pjdfstest"])[0]
        text = "$ pjdfstest\nunlink::ok  ok\nopen::bad  FAILED\n\tassertion failed: ENOENT\nlink::erofs skipped\n\tnot allowed\n\nSummary: x"
        cases = list(suite.module.read(text))
        self.assertEqual([case.state for case in cases], ["passed", "failed", "skipped"])
        self.assertIn("ENOENT", cases[1].reason)


class Retries(unittest.TestCase):
    def test_what_was_tried_again_is_counted_and_shown(self):
        case = attempt("c", lambda: Done(10, 2))
        self.assertEqual((case.checks, case.retries, case.document()["retries"]), (10, 2, 2))
        self.assertIn("10 checks, 2 tried again", page.line(gate.load_all(SUITES, ["fsx"])[0], [case], 1))
        self.assertIn("2 checks tried again", page.summary([case]))
