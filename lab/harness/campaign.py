"""The scenarios as a campaign: each is measured with its fault and without, and `thalweg explain` is held against the fault."""

import os
from functools import cached_property

from lab.harness import kept, ordinary, page, scenario
from lab.harness.experiment import REPETITIONS, WHERE_VERDICTS_DIFFER, Experiment
from lab.harness.resources import Resources
from testbed import results, shards
from testbed.campaign import Campaign
from testbed.errors import NotRun
from testbed.paths import REPOSITORY, TARGET

SCENARIOS = os.path.join(REPOSITORY, "lab", "scenarios")


class Lab(Campaign):
    """Each item is a scenario. Shards are of all scenarios, by the times of their last results."""

    name = "lab"
    noun = "scenario"
    flags = ("program", "relay", "nice", "counts")
    quick = "the short scenarios, once each, for the test suite: is the cause named? Results go to target/NAME-quick"
    page = page
    results = staticmethod(kept.results)

    def add_flags(self, parser):
        many = f"of each scenario (default: {REPETITIONS}, and {WHERE_VERDICTS_DIFFER} where verdicts differ)"
        parser.add_argument("--repetitions", "--repeat", type=int, metavar="N", help=many)
        parser.add_argument("--budget", type=float, default=60, metavar="SECONDS", help="begin no further repetition of a scenario after this")
        parser.add_argument("--timing", action="store_true", help="unrecorded: only how long fault and baseline take; results go to target/lab-quick")
        parser.add_argument("--method", choices=("bpf", "preload", "proc", "user"), help="another recorder than the best (with --recorder: than that one); it needs --out")
        parser.add_argument("--recorder", choices=("user",), help="as an ordinary user has it: everything is nobody's, each fault recorded once, scored by root's truths; results go to lab/user")
        few = "with --recorder: kernel.perf_event_paranoid meanwhile (default: %(default)s); 3 refuses perf_event_open, also where the kernel would not"
        parser.add_argument("--paranoid", type=int, choices=ordinary.SETTINGS, default=ordinary.WITH_SWITCHES, help=few)
        parser.add_argument("--keep", metavar="DIR", help="keep the recordings of wrong explanations here (with --recorder: also of unsure ones)")
        parser.add_argument("--keep-all", action="store_true", help="with --keep: also those of right ones")

    def check(self):
        if self.options.method and not self.options.out:
            raise ValueError("--method: give --out DIR, since lab/results.jsonl is the best recorder's")
        if self.options.shard and self.options.only:
            raise ValueError("--shard: a shard is of all scenarios; give no --only with it")

    def items(self):
        return scenario.load_all(SCENARIOS)

    def is_in_quick(self, one):
        return one.short

    def elsewhere(self):
        return os.path.join(TARGET, "lab-quick") if self.options.quick or self.options.timing else None

    def write_page(self, path):
        """The page, and in the checkout README's sentence about being right."""
        page.write(path, self.table, scenario.load_all(SCENARIOS))
        if path == page.PAGE:
            page.write_in_readme(page.README, self.table)

    def deal(self, items, count):
        return shards.deal([one.name for one in items], self.lines(), count)

    @cached_property
    def running(self):
        """What all scenarios have in common."""
        return Experiment(Resources(self.program, self.relay, self.options.method), self.options)

    def is_done(self, line):
        return self.running.is_done(line)

    def is_settled(self, line):
        return self.running.is_tried(line)

    def run(self, items):
        documents = []
        try:
            with self.running.resources:
                for one in in_order(items, self.lines(), self.options.budget):
                    documents.append(self._measured(one))
                    print(page.line(documents[-1]), flush=True)
        except NotRun as reason:
            documents = [self.running.not_run(one, str(reason)) for one in items]
            print("\n".join(map(page.line, documents)), flush=True)
        counted = page.counts(documents)
        print(", ".join(f"{count} {state}" for state, count in counted.items()))
        not_run = counted["not run"] + counted["no effect"]
        results.add_counts(self.options.counts, "lab", counted["passed"], counted["failed"], not_run, self.running.seconds())
        return documents

    def code(self, documents):
        return int(page.counts(documents)["failed"] > 0)

    def _measured(self, one):
        last = self.table.get(one.name) or {}
        document = self._once_or_twice(one) if self.options.quick else self.running.of(one, last)
        document["shard"] = self.shard or last.get("shard")
        self.table.put(kept.line(document), document)
        return document

    def _once_or_twice(self, one):
        """One run beside whatever else the machine does says little: a scenario that fails is run again, and the result says so."""
        document = self.running.of(one)
        if document["state"] not in ("failed", "no effect"):
            return document
        print(page.line(document) + "\n          once more:", flush=True)
        return {**self.running.of(one), "retries": 1, "first": document["reason"]}


def in_order(items, lines, budget_s):
    """Scenarios that were never measured first, then those that failed, so that news comes early; says how long all will take."""
    took = sum(min(lines.get(one.name, {}).get("took_s", shards.USUALLY_S), budget_s * 2) for one in items)
    print(f"{len(items)} scenarios, about {took / 60:.0f} minutes", flush=True)
    rank = {None: 0, "failed": 1}
    return sorted(items, key=lambda one: rank.get(lines.get(one.name, {}).get("state"), 2))
