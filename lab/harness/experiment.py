"""One scenario's experiment: all variants, interleaved, as often as asked, and the document of what came out."""

import os
import shutil
import subprocess
import time
from dataclasses import replace

from lab.harness import rules, score
from lab.harness.fixture import Fixture
from testbed import machine, paths, results
from testbed.campaign import attempt
from testbed.errors import Broken, NotRun

# How often a scenario runs; and where its verdicts differ from run to run.
REPETITIONS = 2
WHERE_VERDICTS_DIFFER = 5
# The runs that only predictions, or the truth of one of several faults, are held against need fewer repetitions.
RE_RUNS = 3
# For how long to look at how busy the machine is with other work before a scenario.
BUSY_S = 0.3


class Experiment:
    """What all scenarios of one call have in common: the program, the machine, how often, recorded or not."""

    def __init__(self, resources, arguments):
        self.resources = resources
        self.recorded = not arguments.timing
        self.short = arguments.quick
        self.repeat = 1 if arguments.quick else arguments.repetitions or REPETITIONS
        self.most = max(self.repeat, 0 if arguments.quick or arguments.repetitions else WHERE_VERDICTS_DIFFER)
        self.budget_s = arguments.budget
        # Only the full form tries the other recorders and the rules.
        self.others = self.recorded and not (arguments.quick or arguments.method)
        self.keep = arguments.keep
        self.keep_all = arguments.keep_all
        self.begun = time.monotonic()
        self.common = None

    def seconds(self):
        """Since the lab was started."""
        return int(time.monotonic() - self.begun)

    def is_done(self, document):
        """Whether a document is a whole result of this very program, as often as is asked. The revision may have gained results since."""
        common = self._common()
        alike = document.get("recorded") == common["recorded"] and document.get("repeat", 0) >= common["repeat"]
        return document.get("state") in ("passed", "failed", "no effect") and self._is_same_program(document) and alike

    def is_tried(self, document):
        """Whether it is, or this very program found that the scenario cannot run here."""
        return self.is_done(document) or (document.get("state") == "not run" and self._is_same_program(document))

    def _is_same_program(self, document):
        return document.get("build", {}).get("thalweg_sha256") == self._common()["build"]["thalweg_sha256"]

    def of(self, scenario, last=None):
        """Run a scenario; its document, whatever happened to it. `last` is its last result: where verdicts differed, they may again."""
        begun = time.monotonic()
        document = {**self._head(scenario), "busy_before": machine.busy_share(BUSY_S)}
        raw = {"walls": {}, "explanations": [], "runs": [], "differed": differ((last or {}).get("figures", {}).get("named", []))}
        ended = attempt(self._runs, scenario, raw, begun)
        state = {} if ended["state"] == "done" else ended
        told = score.figures(scenario, raw["walls"], raw["explanations"]) if "fault" in raw["walls"] else {}
        found = score.checks(scenario, told, self.short)
        if not state and score.moved_nothing(scenario, told):
            state = {"state": "no effect", "reason": f"the fault is {max(told['truths']):.0%} of the time, within noise"}
        elif not state:
            wrong = [words for _, met, words in found if not met]
            state = {"state": "failed", "reason": "; ".join(wrong)} if wrong else {"state": "passed"}
        self._keep(scenario, raw, state["state"])
        took = round(time.monotonic() - begun, 1)
        others, trivial = self._judged(scenario, raw, told)
        made = {**document, **state, "took_s": took, "repeated": len(raw["walls"].get("fault", [])), "figures": told, "checks": found}
        made["repeat"] = self._wanted(raw)
        return {**made, "others": others, "rules": trivial, "runs": raw["runs"]}

    def not_run(self, scenario, reason):
        """The document of a scenario that nothing was tried of."""
        return {**self._head(scenario), "state": "not run", "reason": reason, "figures": {}, "checks": [], "runs": []}

    def _runs(self, scenario, raw, begun):
        """Every run of a scenario; what comes of them is in `raw`, also where one of them fails."""
        with Fixture(self.resources, scenario) as fixture:
            self._repeat(fixture, scenario, raw, begun)
            if self.others:
                self._try_others(fixture, scenario, raw)
        return {}

    def _try_others(self, fixture, scenario, raw):
        """Once with each other recorder, and in the same runs what the rules go by; without any, in a run of their own."""
        variant = scenario.variants()[0]
        raw["others"] = {}
        for name in [*scenario.recorders, None]:
            if name is None and "readings" in raw:
                return
            watch = rules.Watch()
            try:
                run = fixture.run(replace(variant, faults=[*variant.faults, watch], recorder=name), recorded=name is not None)
                if name:
                    fixture.explain(run)
                    raw["others"][name] = {"wall_s": run.wall_s, "named": score.named(run.explanation)}
                    shutil.rmtree(run.recording, ignore_errors=True)
                if watch.readings:
                    raw.setdefault("readings", (watch.readings, run.wall_s))
            except (Broken, NotRun, subprocess.TimeoutExpired) as reason:
                # What another recorder cannot do is its own miss, not the scenario's.
                raw["others"].update({name: {"reason": str(reason)}} if name else {})

    @staticmethod
    def _judged(scenario, raw, told):
        """The other recorders' answers and the rules', with their outcomes by the truth that was measured."""
        if "truths" not in told:
            return {}, {}

        def judge(named):
            return score.outcome(scenario, told["truths"], named)

        others = {name: {**one, "outcome": judge(one["named"])} if "named" in one else one for name, one in raw.get("others", {}).items()}
        return others, rules.answers(*raw["readings"], judge) if "readings" in raw else {}

    def _repeat(self, fixture, scenario, raw, begun):
        variants = scenario.variants()
        if self.short:
            variants = [variant for variant in variants if variant.name in ("fault", "baseline")]
        # The first run of all warms up servers, disks and memory, and is not counted.
        fixture.run(variants[-1], recorded=False)
        for number in range(self.most):
            # Two repetitions are the least of which anything can be told.
            if number >= self._wanted(raw) or (number >= 2 and time.monotonic() - begun > self.budget_s):
                break
            if number == RE_RUNS:
                variants = [variant for variant in variants if variant.name in ("fault", "baseline")]
            for variant in variants if number % 2 == 0 else reversed(variants):
                if variant.name == "change" and raw.get("advised"):
                    variant = replace(variant, command=raw["advised"])
                # A recording costs the fault's run at most 1 %; the others need none, but where it is the recorder that is on trial.
                run = fixture.run(variant, self.recorded and (variant.name == "fault" or scenario.record.get("all", False)))
                if self.recorded and variant.name == "fault":
                    fixture.explain(run)
                    raw["explanations"].append(run.explanation)
                    if scenario.predict.get("advised") and not self.short:
                        raw["advised"] = score.advised(scenario.predict["id"], run.explanation, run.name)
                    raw.setdefault("recordings", []).append(run.recording)
                elif run.recording:
                    shutil.rmtree(run.recording, ignore_errors=True)
                raw["walls"].setdefault(variant.name, []).append(run.wall_s)
                raw["runs"].append(_told(variant, run))

    def _wanted(self, raw):
        """How often a scenario is to run, by what is known of its verdicts by now."""
        verdicts = [document["verdict"] for document in raw["explanations"]]
        return self.most if raw["differed"] or differ(verdicts) else self.repeat

    def _keep(self, scenario, raw, state):
        recordings = raw.get("recordings", [])
        if self.keep and recordings and (self.keep_all or state == "failed"):
            os.makedirs(self.keep, exist_ok=True)
            target = os.path.join(self.keep, f"{scenario.name}.thw")
            # An earlier recording of the scenario, and nothing else of that name, is replaced.
            if os.path.isfile(os.path.join(target, "meta.json")):
                shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(recordings[-1], target)
        for recording in recordings:
            shutil.rmtree(recording, ignore_errors=True)

    def _head(self, scenario):
        injected = [dict(fault) for fault in scenario.faults]
        return {
            "scenario": scenario.name,
            "measured": results.now(),
            "title": scenario.title,
            "story": scenario.story.strip(),
            "injected": injected,
            "causes": [" or ".join(sorted(causes)) for causes in scenario.causes],
            "serial": scenario.expect.get("serial", False),
            "predicts": "id" in scenario.predict,
            "command": scenario.copy["command"],
            **self._common(),
        }

    def _common(self):
        if self.common is None:
            self.common = {
                "machine": machine.describe("/dev/shm"),
                "build": paths.build(self.resources.thalweg),
                "recorded": self.recorded,
                "repeat": self.repeat,
            }
        return self.common


def differ(verdicts):
    """Whether verdicts of several runs are not all the same."""
    return len({(verdict["status"], verdict["cause"]) for verdict in verdicts}) > 1


def _told(variant, run):
    told = {"variant": variant.name, "wall_s": run.wall_s, "notes": run.notes}
    if run.explanation:
        told["explained_in_s"] = run.explained_in_s
        document = run.explanation
        kept = ("wall_s", "dropped_events", "verdict", "critical_path", "what_if", "model", "notes")
        told["explanation"] = {key: document[key] for key in kept if key in document}
    return told

