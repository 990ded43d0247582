"""What the case of removed files promises: as many files as it says are made, and all of them are removed, whoever does it."""

import os
import subprocess
import sys
import tempfile
import types
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from bench.harness.cases import removing  # noqa: E402
from testbed.errors import Broken  # noqa: E402
from testbed.paths import TARGET  # noqa: E402
from testbed.store import Store  # noqa: E402


def programs():
    """The command, of whichever builds there are, the newest first."""
    found = [path for path in (os.path.join(TARGET, kind, "thalweg") for kind in ("release", "debug")) if os.access(path, os.X_OK)]
    return sorted(found, key=os.path.getmtime, reverse=True)


class Removing(unittest.TestCase):
    def setUp(self):
        if not programs():
            self.skipTest("thalweg is not built")
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.bench = types.SimpleNamespace(path=lambda *parts: os.path.join(directory.name, parts[-1]))
        self.store = Store(programs()[0], [os.path.join(directory.name, "store")], os.path.join(directory.name, "log"))
        self.enterContext(self.store)

    def run_of(self, subject):
        """One run of a subject: its files, and what its command printed."""
        subject.before(1)
        at = next(word for word in self.store.run("ls", self.store.url("")).split() if word.startswith("removed-"))
        made = self.store.run("ls", self.store.url(f"{at.rstrip('/')}/all")).splitlines()
        printed = subprocess.run(subject.command(1), capture_output=True, text=True, check=True).stdout
        return made, printed

    def test_one_name_in_a_request_removes_as_many_as_were_made(self):
        one = removing.one_by_one(self.bench, self.store, 700)
        made, printed = self.run_of(one)
        self.assertEqual(len(set(made)), 700)
        self.assertGreater(one.own(printed), 0)
        one.after(1)
        self.assertEqual(self.store.run("ls", self.store.url("")), "")

    def test_a_tree_that_is_not_removed_fails_the_run(self):
        removed = removing.tree(self.store, 600, "a", "a", lambda at: [self.store.program, "rm", "-r", self.store.url(at)])
        made, _ = self.run_of(removed)
        self.assertEqual(len(set(made)), 600)
        removed.after(1)
        left = removing.tree(self.store, 3, "b", "b", lambda at: ["true"])
        self.run_of(left)
        with self.assertRaisesRegex(Broken, "removed-b-1 is still there"):
            left.after(1)

    def test_an_order_that_fails_is_told(self):
        removing.make(self.store, "twice", 5)
        with self.assertRaisesRegex(Broken, "thalweg bench node: .*/twice/all"):
            removing.make(self.store, "twice", 5)


class Answers(unittest.TestCase):
    def test_the_last_answer_says_how_long_it_took_and_silence_is_none(self):
        self.assertEqual(removing.took_s('{"done":{"connected":{}}}\n{"done":{"took":0.5}}\n'), 0.5)
        with self.assertRaisesRegex(Broken, "no such star"):
            removing.took_s('{"done":{"connected":{}}}\n{"failed":"no such star"}\n')
        with self.assertRaisesRegex(Broken, "it said nothing"):
            removing.took_s("")


if __name__ == "__main__":
    unittest.main()
