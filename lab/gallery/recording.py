"""A recording of an entry, made anew: its scenario run once to warm up and once recorded, or its sweep; shrunk and packed."""

import os
import shutil
import subprocess

from lab.gallery.entry import PACKS, SWEEP
from lab.harness import corpus, packs
from lab.harness.fixture import Fixture
from lab.harness.resources import Resources
from testbed import files, shell
from testbed.errors import Broken, NotRun
from testbed.paths import REPOSITORY
from testbed.results import write_text
from testbed.store import Store
from testbed.units import size_bytes

# Of all packs together; bound of what the gallery adds to git.
MOST_BYTES = 15 << 20
ATTEMPTS = 5
# What a page says of the store's devices, and the commands that it proposes.
ATTRIBUTES = ("emulated", "knob.")
SWEEP_TIMEOUT_S = 600
SOURCE = "source.dat"


class Recorder:
    """Records entries into `scratch`, and packs what has the right answer."""

    def __init__(self, program, relay, fixture, scratch):
        self.program, self.relay = program, relay
        self.held = corpus.Corpus(scratch, program, recordings=os.path.join(scratch, "recordings"), fixture=fixture)
        self.scratch = scratch

    def record(self, entry):
        """The figures of an entry's new recording, which is packed; `Broken` where three have the wrong answer."""
        if entry.kept:
            raise NotRun(f"the recording is a fixture of explain's tests: {os.path.relpath(entry.kept, REPOSITORY)}")
        if entry.is_of_corpus:
            raise NotRun(f"the recording is the corpus's: make corpus-record CORPUS={entry.name}")
        if entry.sweep:
            self._sweep(entry)
            figures = {}
        else:
            with Resources(self.program, self.relay) as resources, Fixture(resources, entry.scenario()) as fixture:
                figures = self._right(entry, fixture)
        return {**figures, "packed_bytes": self._pack(entry)}

    def _right(self, entry, fixture):
        variant = fixture.scenario.variants()[0]
        variant.recorder = entry.recorder
        if not any("{recording}" in word for word in variant.command):
            fixture.run(variant, recorded=False)
        answers = []
        for _ in range(ATTEMPTS):
            run = fixture.run(variant, recorded=True)
            self.held.shrink(fixture.scenario, run.recording, ["--stacks"] if entry.stacks else [], ATTRIBUTES)
            shutil.rmtree(run.recording, ignore_errors=True)
            document = self.held.explain(self.held.path(entry.name))
            answers.append(document["verdict"].get("cause"))
            if answers[-1] == entry.cause:
                return {"wall_s": document["wall_s"], "cause": answers[-1]}
        others = ", ".join(map(str, answers))
        raise Broken(f"{entry.cause} is to be charged most, and in {ATTEMPTS} runs {others} was: does other work keep the processors busy?")

    def _sweep(self, entry):
        told, into = entry.sweep, self.held.path(entry.name)
        shutil.rmtree(into, ignore_errors=True)
        os.makedirs(into)
        os.makedirs(self.scratch, exist_ok=True)
        source = os.path.join(self.scratch, SOURCE)
        files.make_source(source, size_bytes(told["size"]))
        with Store(self.program, [os.path.join(self.scratch, "store")], os.path.join(self.scratch, "store.log"), flags=told["store"]) as store:
            words = ["sweep", *told["flags"], "--bytes", SOURCE, "-o", os.path.join(into, SWEEP), "--", "thalweg", *told["command"], SOURCE, "thal:/copy"]
            environment = {**os.environ, "THALWEG_STORE": store.address, "PATH": f"{os.path.dirname(self.program)}:{os.environ['PATH']}"}
            done = subprocess.run(
                [self.program, *words], cwd=self.scratch, env=environment, capture_output=True, text=True, check=False, timeout=SWEEP_TIMEOUT_S
            )
        if done.returncode:
            raise Broken(f"thalweg sweep: exit code {done.returncode}: {shell.last_line(done.stderr)}")
        write_text(os.path.join(into, f"{SWEEP}.txt"), done.stdout)
        for ending in ("parquet", "runs.jsonl", "html"):
            os.unlink(os.path.join(into, f"{SWEEP}.{ending}"))
        for file in os.listdir(into):
            text = shell.read(os.path.join(into, file))
            private = [place for place in (REPOSITORY, os.path.dirname(self.program), self.scratch) if place in text]
            if private:
                raise Broken(f"{file} would say {', '.join(private)}")

    def _pack(self, entry):
        packed = packs.pack(self.held.recordings, [entry.name])
        before = os.path.getsize(entry.pack) if os.path.exists(entry.pack) else 0
        total = packs.size(PACKS) - before + len(packed)
        if total > MOST_BYTES:
            raise Broken(f"all packs would have {total / 2**20:.1f} MiB; at most {MOST_BYTES >> 20} are to be in git")
        os.makedirs(PACKS, exist_ok=True)
        with open(entry.pack, "wb") as out:
            out.write(packed)
        return len(packed)
