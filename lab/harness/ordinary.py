"""The scenarios as an ordinary user has them: command, recorder and explanation are `nobody`'s, and so is the server wherever it can be.

One recorded run with the fault each. How large the fault is, and how long its run takes, root's results know (results.jsonl). Where the server
stays root's (`roots_server` of the scenario), the user can know no more than that the time passed there: `server.unknown` at its address is
then right for whatever is wrong in it. An answer that is unsure has to say what would settle it (`verdict.settle`).
"""

import os
import re
import shutil
import subprocess
import time
from dataclasses import replace
from functools import cached_property

from lab.harness import score
from lab.harness.fixture import SCRIPTS, Fixture
from testbed import machine, paths, results, users
from testbed.campaign import attempt
from testbed.errors import Broken, NotRun
from testbed.paths import PROGRAMS, REPOSITORY
from testbed.results import Results

SCHEMA = "thalweg.lab-user/1"
# The settings of kernel.perf_event_paranoid under which an ordinary user is tried: with context switches, and without.
WITH_SWITCHES, WITHOUT_SWITCHES = 2, 3
SETTINGS = (WITH_SWITCHES, WITHOUT_SWITCHES)
SETTING = "kernel.perf_event_paranoid"
# What a scenario comes to. `could not record`: the command runs, and the recorder does not. `not scored`: the fault is too small to be told apart.
ANSWERED = ("right", "unsure", "wrong", "could not record", "not scored", "no effect")
STATES = (*ANSWERED, "not run")
# A fault that is not at work leaves a run shorter than this share of what root measured with it, and hardly longer than one without it.
LEAST_OF_ROOTS = 0.5
ATTEMPTS = 2
BUSY_S = 0.1
ADDRESS = re.compile(r"\b\d+\.\d+\.\d+\.\d+\b")
# Asked of an ordinary user's answers: how many of those that were recorded are right, and how many wrong with confidence at the most.
ASKED = {WITH_SWITCHES: (0.75, 0.01), WITHOUT_SWITCHES: (0.50, 0.01)}


def path(paranoid):
    """Where the results under a setting are kept: beside root's, since a scenario's line there is written anew by each of root's runs."""
    return os.path.join(REPOSITORY, "lab", "user", f"paranoid-{paranoid}.jsonl")


def kept(paranoid, elsewhere=None):
    """The results under a setting."""
    return Results(elsewhere or path(paranoid), "scenario", SCHEMA, None if elsewhere else os.path.join(results.RAW, f"lab-user-{paranoid}"))


def knowable(scenario, addresses):
    """The scenario as such a user is asked it: with what can be known of other users' programs, and of a server that is root's."""
    if "where" in scenario.user:
        scenario = replace(scenario, expect={**scenario.expect, "where": scenario.user["where"]})
    if not scenario.roots_server or not any(cause.startswith("server.") for causes in scenario.causes for cause in causes):
        return scenario
    causes = [causes | {"server.unknown"} if any(cause.startswith("server.") for cause in causes) else causes for causes in scenario.causes]
    return replace(scenario, causes=causes, expect={**scenario.expect, "where": [*scenario.places, *addresses]} if scenario.places else scenario.expect)


def outcome(scenario, truths, named, addresses=()):
    """`right`, `wrong`, `unsure`, or None where the fault is too small."""
    return score.outcome(knowable(scenario, addresses), truths, named)


def whose(scenario):
    """Whose the server is, as a result says it."""
    if not scenario.server.get("kind"):
        return {"server": "none"}
    return {"server": "root's", "why": scenario.roots_server} if scenario.roots_server else {"server": "the user's"}


class Ordinary:
    """What all scenarios of one call have in common."""

    def __init__(self, resources, options, roots):
        """`roots` are the lines of root's results, by scenario."""
        self.resources = resources
        self.paranoid = options.paranoid
        # Where switches are refused, the best recorder that is left is chosen.
        self.method = options.method or ("user" if options.paranoid == WITH_SWITCHES else None)
        self.keep = options.keep
        self.keep_all = options.keep_all
        self.roots = roots
        self.user = users.User(os.path.join(resources.directory, "home"))
        self.begun = time.monotonic()

    def seconds(self):
        """Since the lab was started."""
        return int(time.monotonic() - self.begun)

    def make(self):
        """Make the user's home; `NotRun` where the user cannot reach what is to be run."""
        self.user.must_reach(self.resources.thalweg, PROGRAMS, SCRIPTS, self.resources.directory)
        self.user.make()

    def is_done(self, line):
        """Whether a line is a result of this very program, by the same recorder."""
        same = line.get("build", {}).get("thalweg_sha256") == self._common["build"]["thalweg_sha256"]
        return same and line.get("method") == self.method and line.get("state") in ANSWERED

    def is_tried(self, line):
        """Whether it is, or this very program found that the scenario cannot run here."""
        return self.is_done({**line, "state": ANSWERED[0]}) if line.get("state") == "not run" else self.is_done(line)

    def of(self, scenario):
        """Run a scenario; its document, whatever happened to it."""
        begun = time.monotonic()
        head = {"scenario": scenario.name, "measured": results.now(), "causes": [" or ".join(sorted(one)) for one in scenario.causes], **whose(scenario)}
        ended = attempt(self._runs, scenario)
        # What the harness could not do says nothing of the recorder.
        state = {"failed": "not run"}.get(ended["state"], ended["state"])
        return {**head, "busy_before": machine.busy_share(BUSY_S), **self._common, **ended, "state": state, "took_s": round(time.monotonic() - begun, 1)}

    def _runs(self, scenario):
        if "cannot" in scenario.user:
            raise NotRun(scenario.user["cannot"])
        root = self.roots.get(scenario.name, {}).get("figures", {})
        if "wall_s" not in root:
            raise NotRun("root has no result of it, and so there is no truth to hold an answer against")
        with Fixture(self.resources, scenario, self.user, self._before) as fixture:
            variants = {variant.name: variant for variant in scenario.variants()}
            # Unrecorded, and what takes least: it shows that such a user can run the command at all.
            before = fixture.run(variants.get("baseline", variants["fault"]), recorded=False)
            # Without a fault there is none that might not have been at work.
            without_s = before.wall_s if scenario.faults else 0.0
            for tried in range(1, ATTEMPTS + 1):
                made = self._recorded(fixture, replace(variants["fault"], recorder="user" if self.method == "user" else "unprivileged"), root, without_s)
                if made["state"] not in ("no effect", "could not record"):
                    break
        return {**made, "tried": tried}

    def _before(self, argv):
        return users.refused("perf_event_open", argv) if self.paranoid >= WITHOUT_SWITCHES else argv

    def _recorded(self, fixture, variant, root, without_s):
        """One recorded run with the fault, explained and judged."""
        try:
            run = fixture.run(variant, recorded=True)
        except (Broken, subprocess.TimeoutExpired) as reason:
            return {"state": "could not record", "reason": str(reason)}
        try:
            fixture.explain(run)
            return self._judged(fixture, run, root, without_s)
        except (Broken, subprocess.TimeoutExpired) as reason:
            return {"state": "could not record", "reason": str(reason)}
        finally:
            shutil.rmtree(run.recording, ignore_errors=True)

    def _judged(self, fixture, run, root, without_s):
        scenario, usual = fixture.scenario, root["wall_s"]["fault"]
        named, settle = score.named(run.explanation), run.explanation["verdict"].get("settle") or []
        made = {"wall_s": run.wall_s, "roots_wall_s": usual, "named": named, "settle": settle, "notes": run.explanation.get("notes", [])}
        if run.wall_s < LEAST_OF_ROOTS * usual and run.wall_s - without_s < score.NAMED_FROM * run.wall_s:
            words = f"the run with the fault took {run.wall_s:.3f} s, the one without {without_s:.3f} s, root's with it {usual:.3f} s"
            return {**made, "state": "no effect", "reason": f"{words}: the fault was not at work"}
        addresses = {fixture.network.server.address, *ADDRESS.findall(" ".join(scenario.variants()[0].server_command or []))}
        state = outcome(scenario, root["truths"], named, sorted(addresses)) or "not scored"
        if self.keep and (self.keep_all or state in ("unsure", "wrong")):
            self._keep(scenario, run)
        return {**made, "state": state}

    def _keep(self, scenario, run):
        os.makedirs(self.keep, exist_ok=True)
        target = os.path.join(self.keep, f"{scenario.name}.thw")
        # An earlier recording of the scenario, and nothing else of that name, is replaced.
        if os.path.isfile(os.path.join(target, "meta.json")):
            shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(run.recording, target)

    @cached_property
    def _common(self):
        return {
            "paranoid": self.paranoid,
            "method": self.method,
            "machine": machine.describe("/dev/shm"),
            "build": paths.build(self.resources.thalweg),
        }


KEPT = ("scenario", "state", "reason", "server", "why", "settle", "measured", "shard", "took_s", "tried", "busy_before", "wall_s", "roots_wall_s", "paranoid", "method", "build", "causes")


def line(document):
    """What git keeps of a document."""
    made = {key: document[key] for key in KEPT if document.get(key) not in (None, [])}
    if "named" in document:
        made["named"] = {key: document["named"][key] for key in ("status", "cause", "where")}
    return made


def counts(lines):
    """How many lines there are of each state; of those that are unsure, how many say what would settle it."""
    made = {state: sum(one["state"] == state for one in lines) for state in STATES}
    return {**made, "settled": sum(one["state"] == "unsure" and bool(one.get("settle")) for one in lines)}


def groups(lines):
    """What falls short, by what was wanted and what was said: (in words, names of scenarios), the most frequent first."""
    made = {}
    for one in lines:
        if one["state"] in ("wrong", "unsure"):
            told = one["named"]
            words = f"{one['state']}: wanted {' + '.join(one['causes'])}, named {told['cause']}" + (" (unsure)" if told["status"] == "unsure" else "")
        elif one["state"] in ("could not record", "no effect", "not run"):
            words = f"{one['state']}: {one['reason'][:120]}"
        else:
            continue
        made.setdefault(words, []).append(one["scenario"])
    return sorted(made.items(), key=lambda group: (-len(group[1]), group[0]))


def asked(counted, paranoid):
    """The bars: (what, figure in words, met). What could not be recorded counts as an answer that is not right."""
    scored = sum(counted[state] for state in ("right", "unsure", "wrong", "could not record"))
    right, wrong = ASKED[paranoid]
    return [
        (f"right, in ≥ {right:.0%}", f"{counted['right']} of {scored}", scored > 0 and counted["right"] >= right * scored),
        (f"wrong with confidence, in ≤ {wrong:.0%}", f"{counted['wrong']} of {scored}", scored > 0 and counted["wrong"] <= wrong * scored),
        ("unsure with what would settle it, all", f"{counted['settled']} of {counted['unsure']}", counted["settled"] == counted["unsure"]),
    ]
