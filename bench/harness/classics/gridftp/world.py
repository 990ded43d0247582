"""The shards of `bench/study-2004`, whose results and page it keeps."""

import os
import subprocess
from dataclasses import dataclass

from bench.harness.study2004 import kept as kept2004, shards
from testbed.errors import Broken, NotRun
from testbed.paths import REPOSITORY

CANNOT = 3


@dataclass(frozen=True)
class Elsewhere:
    """One of its shards, which is measured there."""

    study: str
    name: str
    title: str

    def runs(self):
        """One."""
        return [(self.name, 0)]

    def key(self, setting, _number):
        """Its name there."""
        return setting

    def table(self, directory):
        """The results there; elsewhere than in git where a directory is given."""
        return kept2004.table(directory and os.path.join(directory, "results.jsonl"))

    def measure(self, context, _table, _say):
        """Have it made."""
        flags = ["--quick"] if context.quick else []
        flags += ["--out", context.directory] if context.directory else []
        script = os.path.join(REPOSITORY, "bench", "study-2004", "run")
        code = subprocess.run([script, "--only", self.name, "--program", context.program, "--relay", context.relay, *flags], check=False).returncode
        if code == CANNOT:
            raise NotRun("bench/study-2004/run cannot run here")
        if code != 0:
            raise Broken(f"bench/study-2004/run --only {self.name}: exit code {code}")


SHARDS = [Elsewhere("gridftp", one.name, one.title) for one in shards.SHARDS]
