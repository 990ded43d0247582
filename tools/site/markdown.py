"""Links and headings of a Markdown page, each with its place in the text.

A scanner, no parser: it knows fenced blocks, code spans, escapes, and links of the form `[text](target)`, which is what the pages use. Links of
the other form, `[text][name]` with `[name]: target` elsewhere, are found to be refused. The HTML of the finished site is checked again.
"""

import re
from dataclasses import dataclass

FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
HEADING = re.compile(r"^(#{1,6})\s+(.*?)\s*#*\s*$")
CODE = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
DEFINITION = re.compile(r"^ {0,3}\[[^\]]+\]:\s*\S.*$", re.MULTILINE)
TARGET = re.compile(r"\(<?([^()\s<>]*)>?\)")


@dataclass(frozen=True)
class Link:
    """`[text](target)`, or a picture with a `!` before it; `start` and `end` are places in the page."""

    start: int
    end: int
    text: str
    target: str
    is_picture: bool


@dataclass(frozen=True)
class Heading:
    """A heading with the anchor that it gets on the site, and on code hosts."""

    level: int
    title: str
    anchor: str


def blocks(text):
    """The page in pieces (is code, place, text): lines between fences are code, each row of a table is a piece, and so is each paragraph."""
    fence, begun, at, pieces = None, 0, 0, []
    is_row = False
    for line in text.splitlines(keepends=True):
        found = FENCE.match(line)
        ends = fence is not None and found and found[1].startswith(fence) and not line.strip().strip(fence[0])
        begins = fence is None and bool(found)
        splits = begins or (fence is None and (not line.strip() or is_row or line.startswith("|")))
        if splits and at > begun:
            pieces.append((False, begun, text[begun:at]))
            begun = at
        is_row = fence is None and line.startswith("|")
        at += len(line)
        if begins:
            fence = found[1]
        elif ends:
            pieces.append((True, begun, text[begun:at]))
            fence, begun = None, at
    if at > begun:
        pieces.append((fence is not None, begun, text[begun:at]))
    return pieces


def links(text):
    """Every link and picture outside of code, in order; of a picture in a link only the link."""
    found = []
    for is_code, begun, piece in blocks(text):
        if not is_code:
            found += _links_of(piece, begun)
    return sorted(found, key=lambda link: link.start)


def _links_of(piece, begun):
    spans = {match.start(): match.end() for match in CODE.finditer(piece)}
    at, open_brackets, found = 0, [], []
    while at < len(piece):
        if at in spans:
            at = spans[at]
            continue
        if piece[at] == "\\":
            at += 2
            continue
        if piece[at] == "[":
            open_brackets.append(at)
        elif piece[at] == "]" and open_brackets:
            opened = open_brackets.pop()
            if target := TARGET.match(piece, at + 1):
                is_picture = opened > 0 and piece[opened - 1] == "!"
                start = opened - 1 if is_picture else opened
                found = [inner for inner in found if inner.start < begun + start]
                found.append(Link(begun + start, begun + target.end(), piece[opened + 1 : at], target[1], is_picture))
                at = target.end()
                continue
        at += 1
    return found


def definitions(text):
    """Lines that define the target of links elsewhere."""
    return [line for is_code, _, piece in blocks(text) if not is_code for line in DEFINITION.findall(piece)]


def headings(text):
    """Every heading with its anchor; one that occurs again on a page gets a number."""
    found, used = [], set()
    for is_code, _, piece in blocks(text):
        for line in () if is_code else piece.splitlines():
            if match := HEADING.match(line):
                title = plain(match[2])
                anchor = wanted = anchor_of(title)
                number = 0
                while anchor in used:
                    number += 1
                    anchor = f"{wanted}-{number}"
                used.add(anchor)
                found.append(Heading(len(match[1]), title, anchor))
    return found


def plain(title):
    """A heading's text without links, code marks and emphasis."""
    for link in reversed(links(title)):
        title = title[: link.start] + link.text + title[link.end :]
    return re.sub(r"(?<!\w)[*_]+(?=\S)|(?<=\S)[*_]+(?!\w)", "", title.replace("`", ""))


def anchor_of(title):
    """The anchor of a heading's text: lower case, letters, digits, `-` and `_`, a `-` for each space."""
    return "".join("-" if c.isspace() else c for c in title.strip().lower() if c.isalnum() or c in "-_" or c.isspace())
