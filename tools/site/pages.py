"""Which pages the site has, on which shelf, in which order: docs/README.md is the list.

A shelf is a section of docs/README.md with a table whose first column is headed `page`; its pages are the links in that column. A link there that
is no page (a JSON schema) is a file that the site offers as it is. README.md is the first page, docs/README.md the second.
"""

import glob
import os
import re
from dataclasses import dataclass, field

from tools.site import markdown
from tools.site.errors import Broken

FIRST, INDEX = "README.md", "docs/README.md"
# Every page for readers; READMEs of rooms are for those who work in them, and stay with the code.
PATTERNS = ("*.md", "docs/**/*.md", "crates/*/*.md", "crates/*/*.schema.json", "python/README.md")


@dataclass
class Shelf:
    """A section of the list with its pages and files, by their paths from the root."""

    title: str
    paths: list = field(default_factory=list)


def shelves(root):
    """The shelves as docs/README.md has them; `Broken` where one of them names what is not there, a page is on two, or one is on none."""
    with open(os.path.join(root, INDEX), encoding="utf-8") as source:
        found = list(_shelves(source.read()))
    placed, wrong = {FIRST: "the first page", INDEX: "the list itself"}, []
    for shelf in found:
        for path in shelf.paths:
            if not os.path.isfile(os.path.join(root, path)):
                wrong.append(f"{INDEX}: `{path}` on the shelf `{shelf.title}` does not exist: write the page, or remove it from the list")
            elif path in placed:
                wrong.append(f"{INDEX}: `{path}` is on the shelf `{shelf.title}` and already {placed[path]}: keep one of them")
            placed.setdefault(path, f"on the shelf `{shelf.title}`")
    for path in sorted(of_repository(root) - set(placed)):
        wrong.append(f"{path} is on no shelf of {INDEX}: add a row for it there")
    if wrong:
        raise Broken("\n".join(wrong))
    return found


def of_repository(root):
    """Every path that the list must have."""
    found = (path for pattern in PATTERNS for path in glob.glob(pattern, root_dir=root, recursive=True))
    return {path.replace(os.sep, "/") for path in found}


def _shelves(text):
    shelf, is_listing = None, False
    for line in text.splitlines():
        if found := markdown.HEADING.match(line):
            shelf, is_listing = Shelf(markdown.plain(found[2])), False
        if not line.startswith("|"):
            is_listing = False
            continue
        first = re.split(r"(?<!\\)\|", line)[1].strip()
        if first == "page" and shelf:
            is_listing = True
            yield shelf
        elif is_listing:
            shelf.paths += [resolve(INDEX, link.target) for link in markdown.links(first)]


def resolve(page, target):
    """The path from the root that a link of a page leads to, without its anchor."""
    path = target.partition("#")[0]
    return os.path.normpath(os.path.join(os.path.dirname(page), path)).replace(os.sep, "/") if path else page


def title(text):
    """A page's name in the list: its heading up to a colon."""
    first = next((heading.title for heading in markdown.headings(text) if heading.level == 1), None)
    return first and first.partition(": ")[0]
