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
    """One of its shards; `bench/studies` has it made there."""

    study: str
    name: str
    title: str

    def runs(self):
        """One."""
        return [(self.name, 0)]

    def key(self, setting, _number):
        """Its name there."""
        return setting

    def left(self, _lines):
        """Whether it has a result there."""
        line = kept2004.table().get(self.name)
        return [] if line and line["state"] == "done" else self.runs()

    def measure(self, context, _table, _say):
        """Have it made."""
        flags = ["--quick"] if context.quick else []
        script = os.path.join(REPOSITORY, "bench", "study-2004", "run")
        code = subprocess.run([script, "--shard", self.name, "--program", context.program, "--relay", context.relay, *flags], check=False).returncode
        if code == CANNOT:
            raise NotRun("bench/study-2004/run cannot run here")
        if code != 0:
            raise Broken(f"bench/study-2004/run --shard {self.name}: exit code {code}")


SHARDS = [Elsewhere("gridftp", one.name, one.title) for one in shards.SHARDS]
