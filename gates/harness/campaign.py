"""The gates as a campaign. Each runs in a process of its own, with a store of its own."""

import functools
import os
import random
import shutil
import tempfile

from gates.harness import filesystem, page, result
from gates.harness.case import Case, attempt, counts
from gates.harness.expected import Expected
from gates.harness.gate import Fixture, load_all
from gates.harness.side_by_side import SHORT_LIMIT_S, side_by_side
from testbed import results, shell
from testbed.campaign import Campaign
from testbed.errors import Broken, NotRun
from testbed.paths import REPOSITORY, TARGET

HERE = os.path.join(REPOSITORY, "gates")
SUITES = os.path.join(HERE, "suites")
# What gates leave that git does not keep: logs, programs, stores of the long form.
BUILT = os.path.join(TARGET, "gates")
SHORT_JOBS = 2


class Gates(Campaign):
    """Each item is a gate."""

    name = "gates"
    noun = "gate"
    flags = ("program", "counts")
    quick = "the short form, which is part of the test suite: under two minutes; results go to target/NAME"
    page = page
    results = staticmethod(result.results)

    def add_flags(self, parser):
        parser.add_argument("--jobs", type=int, metavar="N", help=f"gates that run at a time (default: 1; with --quick: {SHORT_JOBS})")
        parser.add_argument("--directory", metavar="DIR", help="run on this file system instead of a store of our own; results go to target/gates")
        parser.add_argument("--mount", action="append", default=[], metavar="FLAG", help="a flag for every mount; results go to target/gates")
        parser.add_argument("--seed", type=int, help="of what is random (default: another one each time, printed)")
        parser.add_argument("--keep", action="store_true", help="keep what the programs printed also of gates that passed")

    def items(self):
        return load_all(SUITES)

    def is_in_quick(self, gate):
        return bool(gate.short_s)

    def elsewhere(self):
        return BUILT if self.options.quick or self.options.directory or self.options.mount else None

    def write_page(self, path):
        page.write(path, result.read_all(self.table, self.items()))

    def is_done(self, line):
        form = "short" if self.options.quick else "long"
        return line.get("build", {}).get("thalweg_sha256") == self.build["thalweg_sha256"] and line["form"] == form

    def run(self, gates):
        """Run the gates, several at a time if that is asked for; their cases."""
        options = self.options
        if options.seed is None:
            options.seed = random.SystemRandom().randrange(1 << 32)
        print(f"seed {options.seed}", flush=True)
        jobs = options.jobs or (SHORT_JOBS if options.quick else 1)
        if jobs > 1:
            # The longest begin first, so that none is left to run alone.
            gates = sorted(gates, key=lambda gate: -gate.short_s)
        totals = []
        work, limit_s = functools.partial(run_one, options, self.program), SHORT_LIMIT_S if options.quick else None
        for gate, cases, told, seconds in side_by_side(gates, jobs, work, limit_s):
            totals += cases
            self._take(gate, cases, {**run_of(options), **told, "build": self.build}, seconds)
        print(page.summary(totals))
        return totals

    def code(self, cases):
        return int(counts(cases)["failed"] > 0)

    def _take(self, gate, cases, told, seconds):
        document = result.document(gate, told, cases, seconds)
        self.table.put(result.line(document), document)
        print(page.line(gate, cases, seconds), flush=True)
        made = counts(cases)
        results.add_counts(self.options.counts, f"gates::{gate.name}", made["passed"] + made["expected"], made["failed"], made["skipped"], seconds)


def run_of(options):
    """What the results of all gates of a run say."""
    return {"form": "short" if options.quick else "long", "seed": options.seed}


def run_one(options, program, gate):
    """One gate on a file system of its own: its cases, and where they ran."""
    scratch = os.path.join(BUILT, "log", gate.name)
    shutil.rmtree(scratch, ignore_errors=True)
    os.makedirs(scratch)
    expected = Expected(os.path.join(HERE, "expected.toml"))
    cases, told = [], {}

    def take(case):
        judged = case if options.directory else expected.judge(gate.name, case)
        cases.append(judged)
        if judged.state == "failed":
            print(page.failure(gate, judged), flush=True)

    try:
        with under_test(options, program, gate) as where:
            told |= {"file_system": shell.mount_of(where.path)[1], "mount": options.mount}
            cache = os.path.join(BUILT, "programs")
            fixture = Fixture(where, short=options.quick, seed=options.seed, scratch=scratch, cache=cache, repository=REPOSITORY)
            try:
                for case in gate.module.cases(fixture):
                    take(case)
            finally:
                if where.is_store:
                    take(attempt("nothing is left behind", where.leave))
                    where.keep_logs(scratch)
    except NotRun as why:
        take(Case("the whole gate", "skipped", str(why)))
    except Broken as why:
        take(Case("a mounted store", "failed", str(why)))
    if not options.keep and not any(case.state == "failed" for case in cases):
        shutil.rmtree(scratch, ignore_errors=True)
    return cases, told


def under_test(options, program, gate):
    """The file system on which the gate runs."""
    if options.directory:
        return filesystem.Directory(options.directory)
    if not os.path.exists("/dev/fuse"):
        raise NotRun("this machine has no /dev/fuse")
    if os.geteuid() != 0 and shutil.which("fusermount3") is None:
        raise NotRun("only root can mount here: there is no fusermount3 (Debian: apt-get install fuse3)")
    # The test suite says where its scratch files are; hours of the long form are to run on a disk.
    above = tempfile.gettempdir() if options.quick else BUILT
    directory = os.path.join(above, f"store-{gate.name}-{os.getpid()}")
    return filesystem.MountedStore(program, directory, options.mount)
