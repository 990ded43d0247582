"""What results promise: one line for each name, whole or not at all, nobody's line lost, and no wait without an end."""

import json
import multiprocessing
import os
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from testbed import results  # noqa: E402
from testbed.errors import Broken  # noqa: E402
from testbed.paths import REPOSITORY  # noqa: E402

WRITERS = 4
LINES = 25
LONGEST_S = 60


def write_many(path, writer):
    """Lines of one writer, and one that all of them write."""
    table = results.Results(path, "name", "a/1")
    for number in range(LINES):
        table.put({"name": f"{writer}-{number}"})
        table.put({"name": "shared", "by": writer})


class Lines(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name
        self.path = os.path.join(self.directory, "results.jsonl")
        self.table = results.Results(self.path, "name", "a/1")

    def text(self):
        with open(self.path) as source:
            return source.read()

    def test_a_result_is_read_only_if_it_has_the_schema_and_names_no_checkout(self):
        self.table.put({"name": "one", "path": os.path.join(REPOSITORY, "target/x")})
        self.assertEqual(self.table.get("one")["path"], "target/x")
        self.assertIsNone(results.Results(self.path, "name", "a/2").get("one"))
        self.assertIsNone(self.table.get("other"))

    def test_a_name_has_one_line_and_lines_stand_in_the_order_of_names(self):
        for name, value in (("b", 1), ("a", 1), ("b", 2)):
            self.table.put({"name": name, "value": value})
        self.assertEqual([json.loads(line)["name"] for line in self.text().splitlines()], ["a", "b"])
        self.assertEqual(self.table.get("b")["value"], 2)
        self.table.remove({"a"})
        self.assertEqual(list(self.table.all()), ["b"])

    def test_the_whole_document_is_kept_beside_and_nothing_else_is_left(self):
        self.table.put({"name": "one"}, {"name": "one", "times": [1, 2]})
        self.assertEqual(sorted(os.listdir(self.directory)), ["raw", "results.jsonl"])
        with open(os.path.join(self.directory, "raw", "one.json")) as source:
            self.assertEqual(json.load(source)["times"], [1, 2])

    def test_a_damaged_line_is_named(self):
        self.table.put({"name": "one"})
        with open(self.path, "a") as out:
            out.write('{"name": "tw\n')
        with self.assertRaisesRegex(ValueError, "results.jsonl:2: "):
            self.table.all()

    def test_what_was_there_stays_when_a_write_fails(self):
        self.table.put({"name": "one"})
        with self.assertRaises(TypeError):
            self.table.put({"name": "two", "value": object()})
        self.assertEqual((list(self.table.all()), os.listdir(self.directory)), (["one"], ["results.jsonl"]))

    def test_writers_at_once_lose_nobodys_line(self):
        fork = multiprocessing.get_context("fork")
        writers = [fork.Process(target=write_many, args=(self.path, writer)) for writer in range(WRITERS)]
        deadline = time.monotonic() + LONGEST_S
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join(max(0.0, deadline - time.monotonic()))
            if writer.is_alive():
                writer.kill()
                writer.join(LONGEST_S)
        self.assertEqual([writer.exitcode for writer in writers], [0] * WRITERS)
        self.assertEqual(len(self.table.all()), WRITERS * LINES + 1)

    def test_a_writer_that_gets_no_turn_says_so_in_time(self):
        begun = time.monotonic()
        with results.locked(self.directory):
            # Taken twice by one process it is no deadlock, either.
            with self.assertRaisesRegex(Broken, "another process"), results.locked(self.directory, timeout_s=0.1):
                pass
        self.assertLess(time.monotonic() - begun, LONGEST_S)
        self.table.put({"name": "one"})

    def test_a_child_that_is_forked_meanwhile_does_not_hold_the_lock_on(self):
        child = 0
        try:
            with results.locked(self.directory):
                child = os.fork()
                if child == 0:
                    time.sleep(LONGEST_S)
                    os._exit(0)
            with results.locked(self.directory, timeout_s=5):
                pass
        finally:
            if child:
                os.kill(child, 9)
                os.waitpid(child, 0)


if __name__ == "__main__":
    unittest.main()
