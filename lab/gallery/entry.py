"""An entry of the gallery: a row of entries.toml, checked, and where its recording is."""

import os
import tomllib
from dataclasses import dataclass

from lab.harness import corpus, packs, scenario
from lab.harness.campaign import SCENARIOS
from testbed.paths import REPOSITORY

DIRECTORY = os.path.join(REPOSITORY, "lab", "gallery")
TABLE = os.path.join(DIRECTORY, "entries.toml")
PACKS = os.path.join(DIRECTORY, "packs")
OWN = os.path.join(DIRECTORY, "scenarios")
CORPUS = "corpus"
FIXTURE = "fixture"
FIXTURES = os.path.join(REPOSITORY, "crates", "explain", "tests", "fixtures", "programs")
# The document of a sweep and its text, as `thalweg sweep -o` names them.
SWEEP = "sweep"


@dataclass(frozen=True)
class Entry:
    """What the table says of one entry."""

    name: str
    title: str
    words: str
    cause: str = None
    of: str = "gallery"
    recorder: str = None
    stacks: bool = False
    sweep: dict = None

    @property
    def is_of_corpus(self):
        """Whether its recording is the corpus's."""
        return self.of == CORPUS and self.recorder is None

    @property
    def kept(self):
        """The directory of its recording, if that is kept as it is."""
        return os.path.join(FIXTURES, self.name) if self.of == FIXTURE else None

    @property
    def pack(self):
        """The file that its recording is packed in."""
        if self.is_of_corpus:
            return os.path.join(corpus.DIRECTORY, "packs", f"{packs.group(self.name)}{packs.ENDING}")
        return os.path.join(PACKS, f"{self.name}{packs.ENDING}")

    @property
    def origin(self):
        """The file, from the root of the checkout, that says how it is recorded."""
        if self.sweep:
            return os.path.relpath(TABLE, REPOSITORY)
        return os.path.relpath(os.path.join(OWN if self.of == "gallery" else SCENARIOS, f"{self.name}.toml"), REPOSITORY)

    def scenario(self):
        """Its scenario."""
        return scenario.load(os.path.join(REPOSITORY, self.origin))


def load(path=TABLE):
    """The entries in their order; `ValueError` names the table and what is wrong in it."""
    with open(path, "rb") as source:
        told = tomllib.load(source)["entry"]
    try:
        entries = [Entry(**one) for one in told]
    except TypeError as reason:
        raise ValueError(f"{path}: {reason}") from None
    names = [one.name for one in entries]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"{path}: {', '.join(twice)}: more than one entry")
    return entries
