"""`lab/run --recorder user`: the scenarios as a campaign of an ordinary user."""

from functools import cached_property

from lab.harness import kept, ordinary, page, scenario
from lab.harness.campaign import SCENARIOS, Lab
from lab.harness.resources import Resources
from testbed import results, settings, shards
from testbed.errors import NotRun

# What a scenario takes that was never measured: it is set up, run twice and explained.
USUALLY_S = 5


class OrdinaryLab(Lab):
    """Each item is a scenario. Its results lie in lab/user, in a file for each setting; the page is root's and theirs."""

    def check(self):
        options = self.options
        if options.quick or options.timing or options.repetitions:
            raise ValueError("--recorder user: each fault is recorded once; give no --quick, --timing or --repetitions with it")
        if options.method and not options.out:
            raise ValueError("--method: give --out DIR, since lab/user is of the recorder `user`")
        if options.shard and options.only:
            raise ValueError("--shard: a shard is of all scenarios; give no --only with it")

    def results(self, path=None):
        return ordinary.kept(self.options.paranoid, path)

    def items(self):
        return scenario.load_all(SCENARIOS)

    def deal(self, items, count):
        lines = self.lines()
        unknown = {one.name: {"took_s": USUALLY_S} for one in items if one.name not in lines}
        return shards.deal([one.name for one in items], {**lines, **unknown}, count)

    @cached_property
    def running(self):
        resources = Resources(self.program, self.relay, self.options.method)
        return ordinary.Ordinary(resources, self.options, kept.results().all())

    def run(self, items):
        documents, known = [], self.lines()
        took = sum(known.get(one.name, {}).get("took_s", USUALLY_S) for one in items)
        print(f"{len(items)} scenarios as an ordinary user, about {took / 60:.0f} minutes", flush=True)
        for name in settings.put_back():
            print(f"{name}: put back, which a run that was killed had left changed", flush=True)
        with self.running.resources, settings.changed(ordinary.SETTING, self.options.paranoid):
            self.running.make()
            for one in items:
                document = {**self.running.of(one), "shard": self.shard or known.get(one.name, {}).get("shard")}
                self.table.put(ordinary.line(document), document)
                documents.append(document)
                print(self._words(document), flush=True)
        counted = ordinary.counts(documents)
        print(", ".join(f"{counted[state]} {state}" for state in ordinary.STATES) + f"; {counted['settled']} of the unsure say what would settle it")
        done = sum(counted[state] for state in ("right", "unsure", "not scored"))
        failed = counted["wrong"] + counted["could not record"]
        results.add_counts(self.options.counts, "lab-user", done, failed, len(documents) - done - failed, self.running.seconds())
        return documents

    @staticmethod
    def _words(document):
        """One line on the terminal, and what went wrong below it."""
        named = document.get("named", {})
        told = f"{named['cause']} at {named['where']}{' (unsure)' if named['status'] == 'unsure' else ''}" if named else ""
        head = f"{document['state'].upper():16} {document['scenario']:34} server: {document['server']:10} {document['took_s']:5.1f} s  {told}"
        more = [document["reason"]] if document.get("reason") else []
        more += [f"wanted: {', '.join(document['causes'])}"] if document["state"] in ("unsure", "wrong") else []
        more += [f"to settle it: {words}" for words in document.get("settle", [])]
        return "\n                 ".join([head, *more])

    def code(self, documents):
        counted = ordinary.counts(documents)
        return int(counted["wrong"] + counted["could not record"] > 0)

    def publish(self):
        if self.out:
            return
        page.write(page.PAGE, kept.results(), scenario.load_all(SCENARIOS))

    def show(self):
        lines = self.table.all().values()
        for words, names in ordinary.groups(lines):
            print(f"{len(names):4} {words}: {' '.join(names)}")
        for what, figure, met in ordinary.asked(ordinary.counts(lines), self.options.paranoid) if lines else []:
            print(f"{'met   ' if met else 'MISSED'}  {what}: {figure}")
        return 0


def campaign(argv):
    """The campaign that a command line asks for."""
    words = [word for at, word in enumerate(argv) if word.startswith("--recorder=") or (at and argv[at - 1] == "--recorder")]
    return OrdinaryLab() if words and words[-1].removeprefix("--recorder=") == "user" else Lab()
