"""What a study leaves in git: one line with the text of its page, and its pictures beside the page. Its raw log is in a folder that git ignores."""

import os
import shutil

from testbed.paths import REPOSITORY
from testbed.results import RAW, Results, now

SCHEMA = "thalweg.study/1"
PATH = os.path.join(REPOSITORY, "bench", "studies.jsonl")
DOCS = os.path.join(REPOSITORY, "docs")


def raw(study):
    """Where a study's raw log goes, and all that it makes of it."""
    return os.path.join(RAW, "bench", study)


class Studies:
    """The lines, and the pages they are for."""

    def __init__(self, path=PATH, docs=DOCS):
        self.lines = Results(path, "study", SCHEMA)
        self.docs = docs

    def keep(self, study, results, **more):
        """Keep what a study made in the directory `results`: the text without its heading, and the pictures."""
        with open(os.path.join(results, f"{study}.md"), encoding="utf-8") as source:
            text = source.read().split("\n", 2)[2]
        pictures = os.path.join(self.docs, study)
        shutil.rmtree(pictures, ignore_errors=True)
        os.makedirs(pictures)
        for name in os.listdir(results):
            if name.endswith(".svg"):
                shutil.copy(os.path.join(results, name), pictures)
        self.lines.put({"study": study, "measured": now(), "text": text, **more})

    def get(self, study):
        """A study's line, and the names of its pictures."""
        line = self.lines.get(study)
        if line is None:
            raise ValueError(f"{self.lines.path}: nothing of the study `{study}`; make bench-{study}")
        files = sorted(name for name in os.listdir(os.path.join(self.docs, study)) if name.endswith(".svg"))
        return line, [name.removesuffix(".svg") for name in files]
