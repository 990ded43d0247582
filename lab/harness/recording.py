"""One recording of a scenario for the corpus: a run to warm up, and one with the fault, recorded in the kernel."""

import os
import shutil
from contextlib import contextmanager

from lab.harness import corpus
from lab.harness.fixture import Fixture
from lab.harness.resources import Resources
from testbed import machine, paths
from testbed.errors import Broken, NotRun

# A fault that is not at work leaves a run shorter than this share of what the lab measured with it.
LEAST_OF_LAB = 0.5
# And what else went on makes one longer than this many times as long.
MOST_OF_LAB = 2.0
ATTEMPTS = 2
# Beside other work a run waits for processors, and that is then its cause.
MOST_BUSY = 0.25
LOOK_S = 0.2
LOOKS = 25


class Recorder:
    """What all recordings of one call have in common."""

    def __init__(self, program, relay, held, scenarios, lines, busy=False):
        self.program = program
        self.relay = relay
        self.held = held
        self.scenarios = {one.name: one for one in scenarios}
        self.lines = lines
        self.busy = busy
        self.build = paths.build(program)

    def is_done(self, name):
        """Whether this very program has recorded it."""
        kept = self.held.labels.get(name)
        return bool(kept) and kept["program"] == self.build["thalweg_sha256"] and os.path.isdir(self.held.path(name))

    @contextmanager
    def recording(self):
        """Gives a function that records the scenario of a name."""
        with Resources(self.program, self.relay) as resources:
            yield lambda name: self._record(resources, self.scenarios[name])

    def _record(self, resources, scenario):
        line = self.lines.get(scenario.name)
        if line is None or "truths" not in line["figures"]:
            raise Broken("the lab has no result of it, and so there is no truth to hold an answer against")
        variants = scenario.variants()
        reason = None
        with Fixture(resources, scenario) as fixture:
            fixture.run(variants[-1], recorded=False)
            for _ in range(ATTEMPTS):
                busy_before = self._quiet()
                try:
                    run = fixture.run(variants[0], recorded=True)
                except Broken as failed:
                    reason = failed
                    continue
                try:
                    return self._keep(scenario, run, line, busy_before)
                except Broken as failed:
                    reason = failed
                finally:
                    shutil.rmtree(run.recording, ignore_errors=True)
        raise reason

    def _quiet(self):
        """How busy other work keeps the processors, once it does not keep them too busy; `NotRun` when it goes on."""
        for _ in range(LOOKS):
            busy = machine.busy_share(LOOK_S)
            if self.busy or busy is None or busy <= MOST_BUSY:
                return busy
        raise NotRun(f"other work keeps the processors busy for {busy:.0%}; --busy records all the same")

    def _keep(self, scenario, run, line, busy_before):
        usual = line["figures"]["wall_s"]["fault"]
        if run.wall_s < LEAST_OF_LAB * usual:
            raise Broken(f"the run with the fault took {run.wall_s:.3f} s, where the lab measured {usual:.3f} s: the fault was not at work")
        if run.wall_s > MOST_OF_LAB * usual and not self.busy:
            raise Broken(f"the run with the fault took {run.wall_s:.3f} s, where the lab measured {usual:.3f} s: something else went on")
        label = corpus.label(scenario, line, run.wall_s, self.build)
        label |= {"busy_before": busy_before, "program": self.build["thalweg_sha256"]}
        self.held.add(scenario, run.recording, label)
        return run.wall_s
