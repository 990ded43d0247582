"""What is wrong with a page is found, and what is right comes on the site once."""

import os
import re
import tempfile
import unittest
from collections import Counter

from tools.site import markdown, mdbook, pages, staging
from tools.site.errors import Broken

LIST = "# The book\n\n## Start\n\n| page | for |\n|---|---|\n| [A.md](A.md) | what |\n"


class Markdown(unittest.TestCase):
    def test_links_are_found_outside_of_code(self):
        text = "[a](b.md) `[c](d.md)` [`e`](f.md#g)\n\n```\n[h](i.md)\n```\n| ` | [j](k.md) | ![l](m.svg) |\n\\[n](o.md) [p [q](r.md)]\n"
        self.assertEqual([link.target for link in markdown.links(text)], ["b.md", "f.md#g", "k.md", "m.svg", "r.md"])
        self.assertEqual([link.is_picture for link in markdown.links(text)], [False, False, False, True, False])
        for link in markdown.links(text):
            self.assertEqual(text[link.start : link.end], f"{'!' * link.is_picture}[{link.text}]({link.target})")

    def test_a_picture_in_a_link_is_a_part_of_it(self):
        self.assertEqual([link.text for link in markdown.links("[![a](b.svg) c](d.md) ![e](f.svg)")], ["![a](b.svg) c", "e"])

    def test_a_fence_ends_with_its_own_kind(self):
        self.assertEqual(markdown.links("````\n```\n[a](b)\n```\n````\n[c](d)\n")[0].target, "d")

    def test_anchors_are_those_of_mdbook(self):
        # The examples of mdBook's own tests.
        for text, anchor in (("`--passes`: add more rustdoc passes", "--passes-add-more-rustdoc-passes"), ("_-_12345", "_-_12345"), ("中文標題 CJK title", "中文標題-cjk-title"), ("Über", "über")):
            self.assertEqual(markdown.anchor_of(text.replace("`", "")), anchor)
        found = markdown.headings("# tar | gzip\n\n```\n# no heading\n```\n## [A `b`](c.md), *d* & e_f\n## Twice\n## Twice\n")
        self.assertEqual([heading.anchor for heading in found], ["tar--gzip", "a-b-d--e_f", "twice", "twice-1"])


class Staging(unittest.TestCase):
    """A repository of a few pages."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root, self.staged = os.path.join(scratch.name, "root"), os.path.join(scratch.name, "staged")
        self.write("Cargo.toml", '[workspace.package]\nrepository = ""\n')
        self.write("README.md", "# First\n\n[all](docs/README.md)\n")
        self.write("docs/README.md", LIST)
        self.write("docs/A.md", "# A: the page\n")

    def write(self, path, text):
        os.makedirs(os.path.dirname(os.path.join(self.root, path)), exist_ok=True)
        with open(os.path.join(self.root, path), "w", encoding="utf-8") as out:
            out.write(text)

    def stage(self):
        staging.stage(staging.Site.of(self.root), self.staged)

    def read(self, path):
        with open(os.path.join(self.staged, "src", path), encoding="utf-8") as source:
            return source.read()

    def faults(self):
        with self.assertRaises(Broken) as raised:
            self.stage()
        return str(raised.exception)

    def test_the_table_of_contents_is_the_list(self):
        self.stage()
        self.assertEqual(self.read("SUMMARY.md"), "# Summary\n\n[First](index.md)\n[The book](docs/index.md)\n\n# Start\n\n- [A](docs/A.md)\n")
        self.assertEqual(self.read("index.md"), "# First\n\n[all](docs/index.md)\n")
        # In the list a page has its title.
        self.assertIn("| [A](A.md) | what |", self.read("docs/index.md"))

    def test_a_page_on_no_shelf_is_an_error(self):
        self.write("docs/results/B.md", "# B\n")
        self.assertEqual(self.faults(), "docs/results/B.md is on no shelf of docs/README.md: add a row for it there")

    def test_a_page_on_two_shelves_is_an_error(self):
        self.write("docs/README.md", LIST + "\n## Again\n\n| page | for |\n|---|---|\n| [A.md](A.md) | what |\n")
        self.assertIn("`docs/A.md` is on the shelf `Again` and already on the shelf `Start`", self.faults())

    def test_a_page_that_is_not_there_is_an_error(self):
        self.write("docs/README.md", LIST.replace("[A.md](A.md)", "[A.md](A.md), [C.md](C.md)"))
        self.assertIn("`docs/C.md` on the shelf `Start` does not exist", self.faults())

    def test_a_page_without_a_name_is_an_error(self):
        self.write("docs/A.md", "## A\n")
        self.assertIn("docs/A.md has no heading of the first level", self.faults())

    def test_every_dead_link_is_named(self):
        self.write("docs/A.md", "# A: the page\n\n[b](B.md), [c](README.md#no), [d](#nor), [e](../../etc), [f](#a-the-page), ![g](no.svg), <https://h>, [i](https://i)\n")
        self.assertEqual(re.findall("`([^`]*)` (?:does not|is no heading)", self.faults()), ["B.md", "README.md#no", "#nor", "../../etc", "no.svg"])
        self.assertFalse(os.path.exists(self.staged))

    def test_a_link_with_its_target_elsewhere_is_an_error(self):
        self.write("docs/A.md", "# A\n\n[b]\n\n```\n[code]: x\n```\n\n[b]: ../README.md\n")
        self.assertEqual(self.faults(), "docs/A.md: `[b]: ../README.md` defines a target for links elsewhere: write `[text](target)` in each place")

    def test_links_to_sources_are_paths(self):
        self.write("src/a b.rs", "")
        self.write("src/one.toml", "")
        self.write("docs/A.md", "# A\n\n[src](../src), [code](../src/one.toml), [one.toml](../src/one.toml)\n\n| [one](../src/one.toml) | [`src/one.toml`](../src/one.toml) |\n")
        self.stage()
        self.assertEqual(self.read("docs/A.md"), '# A\n\n`src`, code (`src/one.toml`), `src/one.toml`\n\n| <code title="src/one.toml">one</code> | `src/one.toml` |\n')
        self.write("Cargo.toml", '[workspace.package]\nrepository = "https://code.example/thalweg/"\n')
        self.stage()
        self.assertIn("[src](https://code.example/thalweg/tree/HEAD/src), [code](https://code.example/thalweg/blob/HEAD/src/one.toml)", self.read("docs/A.md"))

    def test_pictures_and_listed_files_come_along(self):
        self.write("docs/README.md", LIST.replace("[A.md](A.md)", "[A.md](A.md), [schema](../crates/a/a.schema.json)"))
        self.write("crates/a/a.schema.json", "{}")
        self.write("docs/p/a.svg", "<svg/>")
        self.write("docs/A.md", "# A\n\n![p](p/a.svg) [s](../crates/a/a.schema.json)\n")
        self.stage()
        self.assertEqual(self.read("docs/A.md"), "# A\n\n[![p](p/a.svg)](p/a.svg) [s](../crates/a/a.schema.json)\n")
        self.assertEqual((self.read("docs/p/a.svg"), self.read("crates/a/a.schema.json")), ("<svg/>", "{}"))


class Pages(unittest.TestCase):
    """The pages of this repository."""

    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.scratch.cleanup)
        cls.staged = os.path.join(cls.scratch.name, "staged")
        cls.site = staging.Site.of(mdbook.ROOT)
        cls.count = staging.stage(cls.site, cls.staged)

    def test_each_is_laid_out_and_listed_once(self):
        source = os.path.join(self.staged, "src")
        there = [os.path.relpath(os.path.join(folder, name), source) for folder, _, names in os.walk(source) for name in names if name.endswith(".md")]
        with open(os.path.join(source, "SUMMARY.md"), encoding="utf-8") as summary:
            listed = Counter(link.target for link in markdown.links(summary.read()))
        self.assertEqual(Counter(there) - Counter(["SUMMARY.md"]), listed)
        self.assertEqual(set(listed.values()), {1})
        self.assertGreater(self.count, 40)

    def test_no_two_say_the_same(self):
        paragraphs = Counter(part for text in self.site.texts.values() for part in set(re.split(r"\n\s*\n", text)) if len(part) > 400 and not part.startswith(("|", "```")))
        self.assertEqual([part for part, times in paragraphs.items() if times > 1], [])

    def test_titles_tell_pages_apart(self):
        titles = Counter(pages.title(text) for text in self.site.texts.values())
        self.assertEqual([title for title, times in titles.items() if times > 1], [])


if __name__ == "__main__":
    unittest.main()
