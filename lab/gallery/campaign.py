"""The gallery as a campaign: of each entry the kept recording is explained and drawn, and with `--record` it is recorded anew before."""

import os
import shutil
import time

from lab.answers.keeping import FIXTURES
from lab.gallery import page
from lab.gallery.entry import DIRECTORY, load
from lab.gallery.recording import Recorder
from lab.gallery.rendering import Rendering
from lab.harness import kept
from testbed import machine
from testbed.campaign import Campaign
from testbed.errors import NotRun
from testbed.paths import TARGET
from testbed.results import Results, add_counts, now

SCHEMA = "thalweg.gallery/1"
PAGES = os.path.join(TARGET, "gallery")
CHECKED = os.path.join(TARGET, "gallery-checked")
LINE = ("name", "title", "state", "reason", "sentence", "recorded")


class Gallery(Campaign):
    """Each item is an entry of entries.toml."""

    name = "gallery"
    noun = "entry"
    flags = ("program", "relay", "nice", "counts")
    quick = None
    page = page
    has_shards = False

    def results(self, path=None):
        """Of each entry its sentence, and how its recording was made unless the corpus has it."""
        return Results(path or page.RESULTS, "name", SCHEMA)

    def add_flags(self, parser):
        parser.add_argument("--record", nargs="+", action="extend", metavar="NAME", help="record these entries anew, with real programs, and then draw them")
        parser.add_argument("--check", action="store_true", help="is each sentence of docs/gallery what `explain` says now, and can each page be made?")

    def check(self):
        self.begun = time.monotonic()
        if self.options.record:
            self.options.only = [*(self.options.only or []), *self.options.record]

    def items(self):
        return load()

    def elsewhere(self):
        return CHECKED if self.options.check else None

    def head(self, entry):
        return {"name": entry.name, "title": entry.title}

    def document(self, entry):
        """All of it is in git, and the same recording and program make the same."""
        made = super().document(entry)
        return {key: made[key] for key in LINE if made.get(key) is not None}

    def is_done(self, line):
        return line.get("state") == "done"

    def measure(self, entry):
        scratch = os.path.join(self.scratch, entry.name)
        recorded = self._recorded(entry, scratch) if self.options.record else (self.table.get(entry.name) or {}).get("recorded")
        pictures, pages = self._places()
        for directory in (pictures, pages):
            os.makedirs(directory, exist_ok=True)
        rendering = Rendering(entry, self.program, scratch)
        sentence = rendering.sentence()
        rendering.page(os.path.join(pages, f"{entry.name}.html"))
        if not self.options.check:
            rendering.picture(os.path.join(pictures, f"{entry.name}.svg"))
        shutil.rmtree(scratch, ignore_errors=True)
        return {"sentence": sentence, "recorded": recorded}

    def _places(self):
        """Where the pictures and the pages go."""
        return (self.out, self.out) if self.out else (os.path.dirname(page.PAGE), PAGES)

    def _recorded(self, entry, scratch):
        fixture = next((path for path in FIXTURES if os.access(path, os.X_OK)), None)
        if fixture is None:
            raise NotRun("the example `fixture`, which shrinks recordings, is not built: tools/cargo build --release -p thalweg-explain --examples")
        busy = machine.busy_share()
        told = Recorder(self.program, self.relay, fixture, os.path.join(scratch, "made")).record(entry)
        described = {key: self.machine[key] for key in kept.MACHINE if key in self.machine}
        return {"when": now(), "busy_before": busy, **told, "machine": described, "build": self.build["revision"]}

    def show(self):
        """With --check, say which sentences are not those of the page in the checkout."""
        if not self.options.check:
            return 0
        with open(page.PAGE, encoding="utf-8") as source:
            there = page.sentences(source.read())
        lines, names = self.lines(), [entry.name for entry in load()]
        faults = []
        for name in names:
            line = lines.get(name, {})
            if line.get("state") != "done":
                faults.append(f"{name}: {line.get('reason', 'was not drawn')}")
            elif line["sentence"] != there.get(name):
                faults.append(f"{name}: docs/gallery says: {there.get(name)}\n    now: {line['sentence']}")
        strangers = sorted(set(there) - set(names))
        faults += [f"{name}: docs/gallery has it, and no entry of the gallery" for name in strangers]
        count = len(names) + len(strangers)
        print("\n".join(faults + (["`make gallery` writes the page and the pictures anew"] if faults else [])))
        print(f"{count - len(faults)} of {count} entries are as docs/gallery has them")
        add_counts(self.options.counts, "gallery", count - len(faults), len(faults), 0, time.monotonic() - self.begun)
        return int(bool(faults))
