"""What is made of a kept recording: the sentence, the still picture, and the page. A sweep is a document and not a recording; its text was kept with it."""

import os
import re
import shutil
import subprocess

from lab.gallery.entry import SWEEP
from lab.harness import packs
from testbed import shell
from testbed.errors import Broken

TIMEOUT_S = 120
# The first plot of a sweep's page is its still picture.
PLOT = re.compile(r"<svg\b.*?</svg>", re.S)


class Rendering:
    """An entry unpacked below a directory; `program` renders it."""

    def __init__(self, entry, program, scratch):
        self.entry, self.program = entry, program
        self.scratch = scratch
        self.recording = os.path.join(scratch, entry.name)
        if entry.kept:
            shutil.copytree(entry.kept, self.recording)
            return
        if not os.path.exists(entry.pack):
            raise Broken(f"{entry.name}: no recording is kept: lab/gallery/run --record {entry.name}")
        packs.unpack_file(entry.pack, scratch)
        if not os.path.isdir(self.recording):
            raise Broken(f"{entry.name}: {entry.pack} does not have it")

    def sentence(self):
        """What `thalweg explain` (or the sweep) says first, before the rows: one sentence, and the number behind the rate."""
        if self.entry.sweep:
            with open(os.path.join(self.recording, f"{SWEEP}.txt"), encoding="utf-8") as source:
                text = source.read().splitlines()
        else:
            # Its first line names the command.
            text = self._run("explain", self.entry.name).splitlines()[1:]
        return " ".join(text[: text.index("")] if "" in text else text)

    def picture(self, path):
        """Write the still picture."""
        if not self.entry.sweep:
            self._run("report", self.entry.name, "-o", path)
            return
        page = os.path.join(self.scratch, f"{self.entry.name}.html")
        self.page(page)
        with open(page, encoding="utf-8") as source:
            plot = PLOT.search(source.read().split('<main id="static">')[-1])
        if not plot:
            raise Broken(f"{self.entry.name}: the page of the sweep has no picture")
        with open(path, "w", encoding="utf-8") as out:
            out.write(plot.group(0) + "\n")

    def page(self, path):
        """Write the page."""
        recorded = os.path.join(self.entry.name, f"{SWEEP}.json") if self.entry.sweep else self.entry.name
        self._run("report", recorded, "-o", path)

    def _run(self, *words):
        """Run where the recording is called by its name, so that no output has another path."""
        try:
            argv = [self.program, *words]
            done = subprocess.run(argv, cwd=self.scratch, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise Broken(f"{self.entry.name}: thalweg {words[0]}: still running after {TIMEOUT_S} s") from None
        if done.returncode:
            raise Broken(f"{self.entry.name}: thalweg {words[0]}: exit code {done.returncode}: {shell.last_line(done.stderr)}")
        return done.stdout
