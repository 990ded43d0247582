"""Jobs with a time limit: one that hangs costs itself alone, however it hangs, and nothing it started outlives it."""

import contextlib
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
import unittest
from contextlib import contextmanager

LAB = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.dirname(LAB))

from lab.harness import bounded  # noqa: E402

LIMIT_S = 0.3
GRACE_S = 1.0
# What all of it may take on a busy machine; a job that hangs would hang for longer.
HANG_S = 120
ENOUGH_S = 60


class Bounded(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.log = os.path.join(directory.name, "log")
        self.begun = time.monotonic()

    def tearDown(self):
        self.assertLess(time.monotonic() - self.begun, ENOUGH_S)

    def note(self, words):
        with open(self.log, "a") as out:
            out.write(f"{words}\n")

    def noted(self):
        with open(self.log) as source:
            return source.read().split()

    @contextmanager
    def work(self):
        self.note("in")
        try:
            yield self.do
        finally:
            self.note("out")

    def do(self, name):
        if name == "fails":
            raise ValueError("no such star")
        if name == "sleeps":
            try:
                time.sleep(HANG_S)
            finally:
                self.note("tidied")
        if name == "hangs":
            self.note(str(subprocess.Popen(["sleep", str(HANG_S)]).pid))
            while True:
                # As something that waits without an end, and takes nothing for a reason to stop.
                try:
                    time.sleep(HANG_S)
                except BaseException:
                    continue
        if name == "dies":
            os._exit(9)
        return f"{name} done"

    def run_all(self, *names):
        return dict(bounded.each(names, self.work, LIMIT_S, GRACE_S))

    def test_every_job_has_its_result_and_they_share_one_worker(self):
        self.assertEqual(self.run_all("a", "b"), {"a": "a done", "b": "b done"})
        self.assertEqual(self.noted(), ["in", "out"])

    def test_a_failure_is_its_own(self):
        found = self.run_all("fails", "b")
        self.assertIsInstance(found["fails"], bounded.Failed)
        self.assertEqual((found["fails"], found["b"]), ("no such star", "b done"))

    def test_a_job_that_takes_too_long_is_interrupted_and_tidies_up(self):
        found = self.run_all("sleeps", "b")
        self.assertEqual((found["sleeps"], found["b"]), ("took longer than 0.3 s", "b done"))
        self.assertEqual(self.noted(), ["in", "tidied", "out"])

    def test_one_that_does_not_stop_is_ended_with_all_it_started_and_the_next_goes_on(self):
        found = self.run_all("a", "hangs", "b")
        self.assertEqual((found["a"], found["b"]), ("a done", "b done"))
        self.assertIn("did not stop", found["hangs"])
        started = next(int(word) for word in self.noted() if word.isdigit())
        while os.path.exists(f"/proc/{started}/stat") and time.monotonic() - self.begun < ENOUGH_S:
            with open(f"/proc/{started}/stat") as source:
                if ") Z " in source.read():
                    break
            time.sleep(0.02)
        self.assertLess(time.monotonic() - self.begun, ENOUGH_S, "what it started is still there")

    def test_when_nobody_wants_the_rest_the_worker_tidies_up_and_ends(self):
        with contextlib.closing(bounded.each(["a", "sleeps", "b"], self.work, HANG_S, GRACE_S)) as results:
            self.assertEqual(next(results), ("a", "a done"))
        self.assertEqual(self.noted()[-1], "out")
        self.assertEqual(multiprocessing.active_children(), [])

    def test_a_worker_that_dies_is_no_wait(self):
        found = self.run_all("dies", "b")
        self.assertEqual((found["dies"], found["b"]), ("its process ended", "b done"))


if __name__ == "__main__":
    unittest.main()
