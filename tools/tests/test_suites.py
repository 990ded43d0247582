"""How `make test` runs a suite and counts it."""

import os
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools"))

from suites import libtest, plan  # noqa: E402

LIMITED = os.path.join(ROOT, "tools", "suites", "limited.py")
OUTPUT = """
running 4 tests
test copies::one ... ok
test namespaces::two ... ok
test namespaces::three ... FAILED
test layout::four - should panic ... ok

successes:

---- namespaces::two stdout ----
SKIPPED: it needs root


successes:
    copies::one

failures:

---- namespaces::three stdout ----
this is why

failures:
    namespaces::three

test result: FAILED. 3 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s
"""


def limited(seconds, *command):
    """Run a command under limited.py; returns its exit code and its log."""
    with tempfile.TemporaryDirectory() as directory:
        log = os.path.join(directory, "log")
        code = subprocess.run([LIMITED, str(seconds), log, "--", *command], check=False, timeout=60).returncode
        with open(log) as source:
            return code, source.read()


class Limited(unittest.TestCase):
    def test_what_ends_in_time_has_its_code_and_output(self):
        self.assertEqual(limited(20, "sh", "-c", "echo out; echo err >&2; exit 3"), (3, "out\nerr\n"))

    def test_a_command_that_is_not_there_is_named(self):
        code, log = limited(20, "/no/such/program")
        self.assertEqual(code, 127)
        self.assertIn("/no/such/program", log)

    def test_a_hang_ends_and_says_where_it_hung(self):
        code, log = limited(0.5, "sh", "-c", "echo begun; sleep 1000 & wait")
        self.assertEqual(code, 124)
        self.assertRegex(log, r"begun[\s\S]*DID NOT END within[\s\S]*sleep 1000\n +\d+ sleep: S")

    def test_nothing_is_left_running(self):
        # A daemon in a session of its own, whose parent has gone, and that ignores what asks it to end.
        daemon = "import os, signal, sys, time; os.fork() and os._exit(0); os.setsid(); signal.signal(15, signal.SIG_IGN); time.sleep(1000)"
        code, log = limited(20, sys.executable, "-c", daemon)
        self.assertEqual(code, 0)
        left = re.search(r"LEFT RUNNING by .*:\n +(\d+) ", log)
        self.assertTrue(left, log)
        self.assertFalse(os.path.exists(f"/proc/{left[1]}"), "it was killed")

    def test_nothing_is_kept_among_what_a_person_has(self):
        code, log = limited(20, "sh", "-c", "echo $TMPDIR; echo $XDG_STATE_HOME; echo ${XDG_RUNTIME_DIR-none}")
        self.assertEqual(code, 0)
        scratch, state, runtime = log.split()
        self.assertTrue(state.startswith(f"{scratch}/"), log)
        self.assertEqual(runtime, "none")

    def test_temporary_files_are_removed(self):
        code, log = limited(20, "sh", "-c", "touch $TMPDIR/left; echo $TMPDIR")
        self.assertEqual(code, 0)
        self.assertFalse(os.path.exists(log.strip()))


class Libtest(unittest.TestCase):
    def test_tests_are_counted_by_module_with_why_they_were_skipped(self):
        outcome = libtest.read(OUTPUT)
        counted = sorted(outcome.counted("end-to-end", by_module=True))
        self.assertEqual(counted, [("end-to-end::copies", 1, 0, 0), ("end-to-end::layout", 1, 0, 0), ("end-to-end::namespaces", 0, 1, 1)])
        self.assertEqual(outcome.counted("end-to-end"), [("end-to-end", 2, 1, 1)])
        self.assertEqual(list(outcome.skips()), ["namespaces::two: it needs root"])
        self.assertEqual([(test, text.strip()) for test, text in outcome.failures()], [("namespaces::three", "this is why")])
        self.assertTrue(outcome.ended)

    def test_what_each_took_is_known_where_it_was_asked_for(self):
        outcome = libtest.read("running 2 tests\ntest one ... ok <1.250s>\ntest two ... FAILED <0.002s>\n")
        self.assertEqual((outcome.states, outcome.times), ({"one": "passed", "two": "failed"}, {"one": 1.25, "two": 0.002}))

    def test_a_program_that_was_killed_did_not_come_to_its_end(self):
        outcome = libtest.read("running 2 tests\ntest one ... ok\n")
        self.assertEqual((outcome.counted("dies"), outcome.ended), ([("dies", 1, 0, 0)], False))


class Plan(unittest.TestCase):
    def test_budgets_are_the_ones_that_contributing_promises(self):
        with open(os.path.join(ROOT, "CONTRIBUTING.md")) as source:
            promised = dict(re.findall(r"^\| `?([a-z-]+)`?:? .*\| (\d+) s \|$", source.read(), re.M))
        self.assertEqual({name: str(seconds) for name, seconds in plan.BUDGETS.items()}, promised)

    def test_whatever_hangs_it_ends(self):
        self.assertLess(plan.ALL_S, 60 * 60)


if __name__ == "__main__":
    unittest.main()
