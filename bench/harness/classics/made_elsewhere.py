"""A world in which a run is a whole study that a program of its own makes: `bench/layout`, `bench/ls`."""

import json
import os
import subprocess
import tempfile

from testbed.errors import Broken, NotRun
from testbed.paths import REPOSITORY

CANNOT = 3


class MadeElsewhere:
    """`script` is its name in bench/, `settings` its words by setting, `of_document` what a line has of its document."""

    def __init__(self, context, script, settings, of_document):
        if os.geteuid() != 0:
            raise NotRun("only root may make network namespaces and disks")
        self.program = context.program
        self.script = script
        self.settings = settings
        self.of_document = of_document
        self.temporary = tempfile.TemporaryDirectory(prefix="thalweg-studies-")
        self.directory = self.temporary.name

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.temporary.cleanup()

    def run(self, setting, number):
        """The whole study, with these words."""
        out = os.path.join(self.directory, f"{setting}-{number}")
        argv = [os.path.join(REPOSITORY, "bench", self.script), "--program", self.program, "--out", out, *self.settings[setting]]
        done = subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode == CANNOT:
            raise NotRun(done.stderr.strip().splitlines()[-1])
        if done.returncode != 0:
            raise Broken(f"bench/{self.script}: exit code {done.returncode}: {done.stderr.strip()[-300:]}")
        with open(os.path.join(out, f"{self.script}.json"), encoding="utf-8") as document:
            return {"words": self.settings[setting], **self.of_document(json.load(document))}
