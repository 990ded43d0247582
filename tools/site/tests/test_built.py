"""The site that mdBook builds: links, anchors, nothing from the network; and in Chromium, from disk: search, width, pictures."""

import json
import os
import re
import subprocess
import tempfile
import unittest
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

from tools.site import markdown, mdbook, staging

BROWSER = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "browser.mjs")
NO_CHROMIUM = 77
# Bound: half a minute on two busy processors.
BROWSER_S = 240
# Attributes whose address a browser loads by itself; `href` of <a> waits for a click.
LOADED = {("script", "src"), ("img", "src"), ("iframe", "src"), ("link", "href"), ("source", "src"), ("object", "data"), ("base", "href")}
IN_STYLE = re.compile(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)")
# Of mdBook: the table of contents for browsers without scripts.
WITHOUT_SCRIPTS = "toc.html"


class Page(HTMLParser):
    """The addresses, ids and headings of a page."""

    def __init__(self, text):
        super().__init__()
        self.links, self.loaded, self.ids, self.headings = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name == "id":
                self.ids.append(value)
                self.headings += [value] if re.fullmatch("h[1-6]", tag) and not value.startswith("mdbook-") else []
            elif (tag, name) in LOADED:
                self.loaded.append(value)
            elif (tag, name) == ("a", "href"):
                self.links.append(value)


class OfSite(unittest.TestCase):
    """The site of this repository's pages."""

    @classmethod
    def setUpClass(cls):
        program = mdbook.find()
        if not program:
            raise unittest.SkipTest(mdbook.ABSENT)
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.output = os.path.join(scratch.name, "site")
        cls.site = staging.Site.of(mdbook.ROOT)
        mdbook.build(program, cls.site, os.path.join(scratch.name, "staged"), cls.output)
        cls.files = {os.path.relpath(os.path.join(folder, name), cls.output) for folder, _, names in os.walk(cls.output) for name in names}
        cls.pages = {path: Page(read(cls.output, path)) for path in cls.files if path.endswith(".html")}


class Built(OfSite):
    """What mdBook wrote."""

    def test_each_page_is_there_once(self):
        wanted = {staging.staged(path)[: -len("md")] + "html" for path in self.site.texts}
        self.assertEqual(set(self.pages), wanted | {WITHOUT_SCRIPTS})

    def test_every_address_leads_somewhere(self):
        count, dead = 0, []
        for path, page in self.pages.items():
            for address in page.links + page.loaded:
                parts = urlsplit(address)
                if parts.scheme or parts.netloc:
                    continue
                count += 1
                target = os.path.normpath(os.path.join(os.path.dirname(path), unquote(parts.path))) if parts.path else path
                is_anchor = not parts.fragment or unquote(parts.fragment) in self.pages[target].ids if target in self.pages else True
                dead += [] if target in self.files and is_anchor else [f"{path}: {address}"]
        self.assertEqual(dead, [])
        self.assertGreater(count, 1000)

    def test_anchors_are_those_that_the_pages_use(self):
        for path, text in self.site.texts.items():
            built = self.pages[staging.staged(path)[: -len("md")] + "html"]
            self.assertEqual(built.headings, [heading.anchor for heading in markdown.headings(text)], path)

    def test_nothing_is_loaded_from_the_network(self):
        loaded = [f"{path}: {address}" for path, page in self.pages.items() for address in page.loaded]
        for path in self.files:
            if path.endswith((".css", ".svg")):
                loaded += [f"{path}: {url or imported}" for url, imported in IN_STYLE.findall(read(self.output, path))]
        self.assertEqual([one for one in loaded if "//" in one.partition(": ")[2]], [])
        self.assertGreater(len(loaded), 100)


class Browser(OfSite):
    """What a reader sees who opens it from disk."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        words = ["node", BROWSER, cls.output, "rwnd", "what does recording cost", "zzyzx"]
        try:
            done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=BROWSER_S)
        except FileNotFoundError:
            raise unittest.SkipTest("Node is not installed") from None
        if done.returncode == NO_CHROMIUM:
            raise unittest.SkipTest("Chromium is not installed, or not what drives it: `tools/test web` installs that in web/node_modules")
        if done.returncode:
            raise AssertionError(f"{BROWSER}: {done.stderr.strip()[-2000:]}")
        cls.seen = json.loads(done.stdout)

    def test_every_page_opens_without_a_request_or_an_error(self):
        self.assertEqual((self.seen["pages"], self.seen["requests"], self.seen["errors"]), (len(self.pages), [], []))

    def test_no_page_is_wider_than_the_window(self):
        self.assertEqual(self.seen["wide"], [])

    def test_the_search_finds_and_marks_what_it_found(self):
        rwnd, cost, nothing = (self.seen["searches"][words] for words in ("rwnd", "what does recording cost", "zzyzx"))
        self.assertTrue(any(found.startswith("docs/GLOSSARY.html") for found in rwnd["found"][:3]), rwnd)
        self.assertTrue(cost["found"][0].startswith("docs/RECORDING.html"), cost)
        self.assertTrue(rwnd["marked"] and cost["marked"])
        self.assertEqual(nothing["found"], [])

    def test_pictures_are_dark_on_a_dark_page(self):
        self.assertGreater(self.seen["brightness"]["light"], 200)
        self.assertLess(self.seen["brightness"]["coal"], 80)


def read(directory, path):
    with open(os.path.join(directory, path), encoding="utf-8", errors="replace") as source:
        return source.read()


if __name__ == "__main__":
    unittest.main()
