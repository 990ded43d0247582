"""docs/gallery/README.md: each entry's picture and the sentence that explains it."""

import os

from lab.gallery.entry import DIRECTORY, load
from testbed.paths import REPOSITORY
from testbed.results import write_text

PAGE = os.path.join(REPOSITORY, "docs", "gallery", "README.md")
RESULTS = os.path.join(DIRECTORY, "results.jsonl")
HEAD = """# Gallery

Recordings of transfers, each with the picture of `thalweg report` and the sentence of `thalweg explain`. Real programs and servers made them; disks, links and
faults were slow on purpose. Read a picture from the top: the sentence, the critical path in the colours of its causes, the throughput, and then threads,
connections and devices, each on its own line.

```
$ make gallery                                     # explains and draws the kept recordings again, in seconds
$ xdg-open target/gallery/store-copy-serial.html   # the page to explore
```

`make gallery` writes this page, its pictures, and for each entry a page to explore: `target/gallery/NAME.html`, one file that needs no network. The pictures are in git.
The pages are not, since each has half a megabyte and changes with every build. [lab/gallery](../../lab/gallery) has the recordings and says how to make them anew.

{contents}
"""
ENTRY = """
## {title}

{words}

![{title}]({name}.svg)

> {sentence}

`target/gallery/{name}.html`, recorded from [{origin}]({link})
"""


def anchor(title):
    """The anchor of a heading."""
    kept = "".join(letter for letter in title.lower() if letter.isalnum() or letter in " -_")
    return kept.replace(" ", "-")


def text(entries, lines):
    """The page of the entries that have a sentence."""
    entries = [entry for entry in entries if lines.get(entry.name, {}).get("sentence")]
    made = HEAD.format(contents="\n".join(f"- [{entry.title}](#{anchor(entry.title)})" for entry in entries))
    for entry in entries:
        link = os.path.relpath(os.path.join(REPOSITORY, entry.origin), os.path.dirname(PAGE))
        said = {"sentence": lines[entry.name]["sentence"], "origin": entry.origin, "link": link}
        made += ENTRY.format(title=entry.title, words=entry.words, name=entry.name, **said)
    return made


def sentences(page):
    """The sentences of a page, by the name of their entry."""
    found, sentence = {}, None
    for line in page.splitlines():
        if line.startswith("> "):
            sentence = line.removeprefix("> ")
        elif sentence is not None and line.startswith("`target/gallery/"):
            found[line.removeprefix("`target/gallery/").partition(".html")[0]], sentence = sentence, None
    return found


def write(results, path):
    """Write the page."""
    write_text(path, text(load(), results.all()))
