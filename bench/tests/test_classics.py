"""The classic studies: shards go on where they were, sections are made of results alone, and the page holds what it shows."""

import os
import re
import tempfile
import unittest

from bench.harness.classics import STUDIES, kept, page
from bench.harness.classics.shard import Context, Shard
from testbed.paths import REPOSITORY

PICTURE = re.compile(r"!\[[^\]]*\]\((studies/[^)]+)\)")


class Counted:
    """A world that counts its runs, and cannot go on after so many."""

    def __init__(self, most):
        self.directory = "/"
        self.most = most
        self.runs = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def run(self, setting, number):
        """One more."""
        if len(self.runs) == self.most:
            raise KeyboardInterrupt
        self.runs.append((setting, number))
        return {"figure": number}


def shard(world):
    """Two settings, one of them more often."""
    return Shard("s", "a", "a shard", ("x", "y"), lambda _context: world, repeat=2, repeats={"y": 3})


class Shards(unittest.TestCase):
    def test_a_shard_that_was_stopped_goes_on_where_it_was(self):
        with tempfile.TemporaryDirectory() as directory:
            table, context = kept.table("s", directory), Context("/bin/true", "/bin/true")
            first, second = Counted(2), Counted(100)
            with self.assertRaises(KeyboardInterrupt):
                shard(first).measure(context, table, lambda _words: None)
            shard(second).measure(context, table, lambda _words: None)
            self.assertEqual(sorted(first.runs + second.runs), [("x", 0), ("x", 1), ("y", 0), ("y", 1), ("y", 2)])
            self.assertEqual(shard(second).left(table.all()), [])

    def test_settings_take_turns_within_a_repetition(self):
        numbers = [number for _, number in shard(None).runs()]
        self.assertEqual(numbers, sorted(numbers))

    def test_a_quick_look_makes_each_setting_once(self):
        with tempfile.TemporaryDirectory() as directory:
            world = Counted(100)
            shard(world).measure(Context("/bin/true", "/bin/true", quick=True), kept.table("s", directory), lambda _words: None)
            self.assertEqual(sorted(world.runs), [("x", 0), ("y", 0)])


class Page(unittest.TestCase):
    def test_names_of_studies_and_shards_are_their_own(self):
        names = [study.name for study in STUDIES]
        self.assertEqual(len(names), len(set(names)))
        for study in STUDIES:
            shards = [one.name for one in study.shards]
            self.assertEqual(len(shards), len(set(shards)), study.name)

    def test_without_results_there_is_a_page_that_says_nothing(self):
        for study in STUDIES:
            if study.name != "gridftp":
                self.assertEqual(study.section.text({}), "", study.name)
                self.assertEqual(study.section.questions({}), [], study.name)

    def test_the_page_in_git_is_what_the_results_in_git_say(self):
        with open(page.PAGE, encoding="utf-8") as text:
            self.assertEqual(text.read(), page.text(STUDIES))

    def test_each_picture_of_the_page_is_there_and_small(self):
        for picture in PICTURE.findall(page.text(STUDIES)):
            path = os.path.join(os.path.dirname(page.PAGE), picture)
            self.assertTrue(os.path.exists(path), path)
            self.assertLessEqual(os.path.getsize(path), kept.MOST_OF_TWO, path)

    def test_no_picture_is_left_that_the_page_does_not_show(self):
        shown = {os.path.basename(path) for path in PICTURE.findall(page.text(STUDIES))}
        self.assertEqual(set(os.listdir(kept.PICTURES)) - shown, set())


if __name__ == "__main__":
    unittest.main()
