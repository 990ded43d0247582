"""Lays the pages out for mdBook: a directory with book.toml, SUMMARY.md, and each page once, at the path that it has in the repository.

Since paths stay, links between pages stay too. Some are rewritten. `README.md` becomes `index.md`, since that is the name under which a
directory is opened. And a link to something that is no page of the site, such as a source file, becomes a link into the repository if Cargo.toml
says where that is, else the path as code. The list of pages names each by its title, and a picture is a link to itself.
"""

import html
import os
import posixpath
import re
import shutil
import tomllib
from dataclasses import dataclass

from tools.site import markdown, pages
from tools.site.errors import Broken

HERE = os.path.dirname(os.path.abspath(__file__))
# What mdBook reads beside the pages.
SETTINGS = ("book.toml", "site.css", "theme")
# Its terms are also found by their last word.
GLOSSARY = "docs/GLOSSARY.md"
TERM = re.compile(r"^\| `[a-z_.]+\.([a-z_]+)`", re.MULTILINE)
# Links that leave the machine, which only follow when they are clicked.
OUTWARD = ("https://", "http://", "mailto:")


@dataclass
class Site:
    """What is laid out: the texts of pages by their paths, files offered as they are, and where the sources are published (or "")."""

    root: str
    texts: dict
    files: set
    shelves: list
    repository: str

    @classmethod
    def of(cls, root):
        """Reads the list and every page on it."""
        shelves = pages.shelves(root)
        listed = [pages.FIRST, pages.INDEX, *(path for shelf in shelves for path in shelf.paths)]
        texts = {path: _read(root, path) for path in listed if path.endswith(".md")}
        with open(os.path.join(root, "Cargo.toml"), "rb") as source:
            package = tomllib.load(source).get("workspace", {}).get("package", {})
        return cls(root, texts, {path for path in listed if path not in texts}, shelves, package.get("repository", "").rstrip("/"))


def stage(site, directory):
    """Lays the site out in a new directory; returns how many pages. `Broken` names every link that leads nowhere."""
    wrong, written = [], {}
    for path, text in site.texts.items():
        wrong += [f"{path}: `{line}` defines a target for links elsewhere: write `[text](target)` in each place" for line in markdown.definitions(text)]
        text = _rewritten(site, path, text, wrong)
        # mdBook's search takes `network.rwnd` as one word, and people look for `rwnd`.
        written[staged(path)] = TERM.sub(r"\g<0><span hidden>\1</span>", text) if path == GLOSSARY else text
    if wrong:
        raise Broken("\n".join(wrong))
    shutil.rmtree(directory, ignore_errors=True)
    source = os.path.join(directory, "src")
    for path, text in {**written, "SUMMARY.md": summary(site)}.items():
        _write(os.path.join(source, path), text)
    for path in site.files:
        target = os.path.join(source, path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copyfile(os.path.join(site.root, path), target)
    for name in SETTINGS:
        copy = shutil.copytree if os.path.isdir(os.path.join(HERE, name)) else shutil.copyfile
        copy(os.path.join(HERE, name), os.path.join(directory, name))
    return len(written)


def staged(path):
    """Where a page is laid out: a README is its directory's index."""
    folder, name = posixpath.split(path)
    return posixpath.join(folder, "index.md") if name == "README.md" else path


def summary(site):
    """SUMMARY.md, mdBook's table of contents: the first page, the list, and a part for each shelf."""
    lines = ["# Summary", "", *(_entry(site, path, "") for path in (pages.FIRST, pages.INDEX))]
    for shelf in site.shelves:
        lines += ["", f"# {shelf.title}", "", *(_entry(site, path, "- ") for path in shelf.paths if path in site.texts)]
    return "\n".join(lines) + "\n"


def _entry(site, path, bullet):
    title = pages.title(site.texts[path])
    if not title:
        raise Broken(f"{path} has no heading of the first level (`# ...`), which is its name in the table of contents: add one")
    escaped = title.replace("[", "\\[").replace("]", "\\]")
    return f"{bullet}[{escaped}]({staged(path)})"


def _rewritten(site, page, text, wrong):
    """A page's text with its links as they are on the site; adds to `wrong` those that lead nowhere."""
    parts, at = [], 0
    for link in markdown.links(text):
        parts += [text[at : link.start], _replaced(site, page, link, wrong)]
        at = link.end
    return "".join(parts) + text[at:]


def _replaced(site, page, link, wrong):
    """What a link is on the site."""
    as_it_is = f"{'!' * link.is_picture}[{link.text}]({link.target})"
    if link.target.startswith(OUTWARD):
        return as_it_is
    target, anchor = pages.resolve(page, link.target), link.target.partition("#")[2]
    place = os.path.join(site.root, target)
    if os.path.isdir(place) and f"{target}/README.md" in site.texts:
        target += "/README.md"
    if target.startswith("..") or not os.path.exists(place):
        wrong.append(f"{page}: `{link.target}` does not exist: correct the link")
    elif target in site.texts:
        if anchor and anchor not in {heading.anchor for heading in markdown.headings(site.texts[target])}:
            wrong.append(f"{page}: `{link.target}` is no heading of {target}: correct the link")
        path = "" if anchor and target == page else posixpath.relpath(staged(target), posixpath.dirname(page) or ".")
        return f"[{_name(site, page, link, target)}]({path}{'#' if anchor else ''}{anchor})"
    elif link.is_picture:
        site.files.add(target)
        # On a small screen a picture is opened to be read.
        return f"[{as_it_is}]({link.target})"
    elif target not in site.files:
        return _outside(site, link, target)
    return as_it_is


def _name(site, page, link, target):
    """How a link to a page reads: in the list of pages, what is named by its file is named by its title, as it is in the table of contents."""
    folder, name = posixpath.split(target)
    is_file_name = page == pages.INDEX and link.text in (target, name, f"{posixpath.basename(folder)}/")
    return pages.title(site.texts[target]) if is_file_name else link.text


def _outside(site, link, target):
    """What stands for a link to a file or directory that is not on the site."""
    if site.repository:
        kind = "tree" if os.path.isdir(os.path.join(site.root, target)) else "blob"
        return f"[{link.text}]({site.repository}/{kind}/HEAD/{target})"
    text, name = link.text.strip("`"), posixpath.basename(target)
    if text == posixpath.splitext(name)[0] != name:
        # A table of scenarios, each by its name: the page says in which directory they are.
        return f'<code title="{html.escape(target)}">{html.escape(text)}</code>'
    return f"`{target}`" if target.endswith(text.rstrip("/")) else f"{link.text} (`{target}`)"


def _read(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as source:
        return source.read()


def _write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as out:
        out.write(text)
