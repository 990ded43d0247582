"""A directory of many files is listed, with each mechanism, from 1 ms away; and where processors' time goes at 32 datafiles a file.

`bench/ls` does the listings. The profile is of `thalweg ls` on loopback, of a directory of its own.
"""

import json
import os
from contextlib import ExitStack
from functools import partial

from bench.harness.classics import kept
from bench.harness.classics.made_elsewhere import MadeElsewhere
from bench.harness.classics.shard import Shard
from testbed.errors import NotRun
from testbed.scratch import Scratch
from testbed.store import Store

WORDS = ["--round-trips", "1", "--no-nfs", "--"]
SETTINGS = {
    "12000": [*WORDS, "--only", "grid", "--files", "12000", "--repeat", "5"],
    "400000": [*WORDS, "--only", "items", "--items", "400000x1", "--repeat", "2"],
}
FILES = 4000
DATAFILES = (1, 32)
LISTINGS = 40


def of_document(document):
    """What a line has: the points and the straight lines."""
    return {key: document.get(key) for key in ("scale", "repeat", "links", "points", "trends", "bars")}


class Profiled:
    """A store of 4 servers with 8 targets each; a directory of files that have one byte on each of so many datafiles."""

    def __init__(self, context):
        if os.geteuid() != 0:
            raise NotRun("only root may profile the whole machine")
        self.program = context.program
        self.scratch = Scratch("thalweg-listing")
        self.directory = self.scratch.directory
        self.undo = ExitStack()

    def __enter__(self):
        with ExitStack() as undo:
            undo.enter_context(self.scratch)
            place = os.path.join(self.directory, "store")
            log = os.path.join(self.directory, "up.log")
            self.store = undo.enter_context(Store(self.program, [place], log, flags=["--servers", "4", "--targets", "8"]))
            os.environ["THALWEG_CREDENTIAL"] = self.store.credential()
            for datafiles in DATAFILES:
                self._fill(datafiles)
            self.undo = undo.pop_all()
        return self

    def __exit__(self, *_):
        self.undo.close()

    def _fill(self, datafiles):
        near = os.path.join(self.directory, f"near-{datafiles}")
        os.makedirs(near)
        for number in range(FILES):
            with open(os.path.join(near, f"f{number:05}"), "wb") as out:
                out.write(b"x" * datafiles)
        layout = ["--layout", "simple_stripe,strip_size=1", "--datafiles", str(datafiles)]
        self.store.run("cp", "-r", "--quiet", *layout, near, self.store.url(f"d{datafiles}"))

    def run(self, setting, _number):
        """Listings one after the other, profiled; a second of it at least."""
        datafiles, how = setting.split("-", 1)
        listing = f"{self.program} ls -lU --mode {how} {self.store.url('d' + datafiles)} > /dev/null"
        repeated = f"for i in $(seq {LISTINGS if how != 'none' else 2}); do {listing}; done"
        up = str(self.store.process.pid)
        said = kept.output([self.program, "profile", "--json", "--also", up, "--", "sh", "-c", repeated])
        return {"files": FILES, "listings": LISTINGS, "profile": json.loads(said)}


PROFILES = tuple(f"{datafiles}-{how}" for datafiles in DATAFILES for how in ("glimpse-ahead", "metadata"))
SHARDS = [
    *(
        Shard("listing", f"grid-{name}" if name == "12000" else "items", title, (name,), partial(MadeElsewhere, script="ls", settings=SETTINGS, of_document=of_document))
        for name, title in (("12000", "12,000 files of 0 to 32 datafiles, each mechanism"), ("400000", "400,000 files"))
    ),
    Shard("listing", "profile", "What processors do at 1 and at 32 datafiles a file", PROFILES, Profiled, repeat=3),
]
