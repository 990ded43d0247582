"""What the gallery promises: every entry has a recording and a picture, its scenario can be read, and nothing is too large for git."""

import os
import sys
import unittest

LAB = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.dirname(LAB))

from lab.gallery import page  # noqa: E402
from lab.gallery.entry import PACKS, load  # noqa: E402
from lab.gallery.recording import MOST_BYTES  # noqa: E402
from lab.gallery.rendering import PLOT  # noqa: E402
from lab.harness import packs  # noqa: E402
from testbed.results import Results  # noqa: E402

# Of docs/gallery, which every clone has.
MOST_PICTURES_BYTES = 8 << 20


def text(path):
    with open(path, encoding="utf-8") as source:
        return source.read()


class TheGallery(unittest.TestCase):
    def setUp(self):
        self.entries = load()
        self.pictures = os.path.dirname(page.PAGE)

    def test_every_entry_has_a_recording_and_a_picture(self):
        for entry in self.entries:
            self.assertTrue(os.path.exists(entry.kept or entry.pack), entry.name)
            self.assertTrue(os.path.exists(os.path.join(self.pictures, f"{entry.name}.svg")), entry.name)

    def test_no_recording_and_no_picture_is_of_an_entry_that_is_gone(self):
        names = {entry.name for entry in self.entries}
        self.assertEqual({name for name in packs.names(PACKS)}, {entry.name for entry in self.entries if not entry.is_of_corpus and not entry.kept})
        self.assertEqual({file.removesuffix(".svg") for file in os.listdir(self.pictures) if file.endswith(".svg")}, names)

    def test_every_scenario_can_be_read(self):
        for entry in self.entries:
            if not entry.sweep:
                self.assertEqual(entry.scenario().name, entry.name)

    def test_recordings_and_pictures_are_small(self):
        self.assertLessEqual(packs.size(PACKS), MOST_BYTES)
        self.assertLessEqual(sum(os.path.getsize(os.path.join(self.pictures, file)) for file in os.listdir(self.pictures)), MOST_PICTURES_BYTES)

    def test_the_page_has_the_sentence_of_every_entry(self):
        lines = Results(page.RESULTS, "name", "thalweg.gallery/1").all()
        self.assertEqual(page.sentences(text(page.PAGE)), {entry.name: lines[entry.name]["sentence"] for entry in self.entries})

    def test_an_anchor_is_what_a_heading_gets(self):
        self.assertEqual(page.anchor("ls -l, one file at a time"), "ls--l-one-file-at-a-time")
        self.assertEqual(page.anchor("tar | gzip"), "tar--gzip")

    def test_the_first_plot_of_a_page_is_found(self):
        self.assertEqual(PLOT.search("<p><svg a='1'>\n<g/></svg><svg></svg>").group(0), "<svg a='1'>\n<g/></svg>")


if __name__ == "__main__":
    unittest.main()
