"""The cases as a campaign: one line of results for each, and the page made of them."""

import os
import subprocess

from bench.harness import page, result
from bench.harness.bench import Bench
from bench.harness.cases import CASES
from testbed.campaign import Campaign, say
from testbed.paths import REPOSITORY

# The release commands: `thalweg`, the raw stream, the generator of large recordings, and what measures TLS by itself.
BUILT = (["-p", "thalweg"], ["-p", "thalweg-raw"], ["-p", "thalweg-trace", "--example", "generate"], ["-p", "thalweg-store", "--example", "tls"])


class Cases(Campaign):
    """Each case measures the built commands beside others."""

    name = "bench"
    parts = CASES
    flags = ("program", "dir")
    quick = "few rounds and small sizes; results go to target/NAME-quick"
    page = page
    results = staticmethod(result.results)
    line = staticmethod(result.line)
    failures_replace = True

    def add_flags(self, parser):
        parser.set_defaults(program=None)

    def is_in_quick(self, case):
        return case.quick

    def is_done(self, line):
        return super().is_done(line) and line["machine"] == self.machine and line["quick"] == self.options.quick

    def head(self, case):
        return {**super().head(case), "quick": self.options.quick}

    def run(self, cases):
        if not self.options.program:
            build()
        with Bench(os.path.dirname(self.program), self.scratch, self.options.quick) as self.bench:
            documents = super().run(cases)
        print(page.markdown(self.table))
        return documents

    def measure(self, case):
        return case.function(bench=self.bench)

    def document(self, case):
        document = super().document(case)
        if document["state"] == "done":
            return document
        return {"bars": [], **document, "reason": "; ".join([document["reason"], *self.bench.forget_the_dead()])}

    def code(self, documents):
        # What this machine cannot run is in the table.
        return int(any(document["state"] == "failed" for document in documents))


def build():
    """Build what is measured; what cannot be built is left out, with a sentence."""
    cargo = os.path.join(REPOSITORY, "tools", "cargo")
    for words in BUILT:
        done = subprocess.run([cargo, "build", "--locked", "--release", "--quiet", *words], cwd=REPOSITORY, check=False)
        if done.returncode != 0:
            say(f"NOT BUILT: cargo build --release {' '.join(words)}")
