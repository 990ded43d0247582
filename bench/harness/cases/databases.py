"""Where names are kept: the same work on a store with names in PostgreSQL and on one with the embedded database.

Both databases, and the stores, are in memory. Bars are those of docs/results/MEASURED.md.
"""

import os
import tempfile

from bench.harness import pairs, result, subjects
from bench.harness.cases.small import SIZE_BYTES, check_in
from bench.harness.pairs import Plan, Subject
from bench.harness.result import Amount, Bar
from testbed import files
from testbed.errors import Broken
from testbed.postgresql import Postgresql
from testbed.store import Store

POSTGRESQL, REDB = "postgresql", "redb"
LABELS = {POSTGRESQL: "names in PostgreSQL", REDB: "names in redb"}


def listing_on_each(bench):
    """`ls -l` of a directory of 50,000 empty files (a quick run: 5,000)."""
    count = 5_000 if bench.quick else 50_000
    tree = files.make_small_files(bench.path(f"empty-{count}"), count, 0, in_directory=count)

    def subject(name, store):
        store.run("cp", "-r", tree, store.url("listed"))
        directory = store.url("listed/0000")
        if len(store.run("ls", directory).splitlines()) != count:
            raise Broken(f"{directory} has not {count} files")
        return Subject(name, LABELS[name], lambda run: [store.program, "ls", "-lU", directory])

    return compared(bench, subject, Amount(count, "files"), 0.8)


def small_files_on_each(bench):
    """`cp -r` of 10,000 files of 4 KiB (a quick run: 2,000)."""
    count = 2_000 if bench.quick else 10_000
    tree = files.make_small_files(bench.path(f"small-{count}"), count, SIZE_BYTES)

    def subject(name, store):
        target = lambda run: f"small-{run}"  # noqa: E731
        return Subject(
            name,
            LABELS[name],
            command=lambda run: [store.program, "cp", "--json", "-r", tree, store.url(target(run))],
            before=lambda run: subjects.warm(*files.files_under(tree)),
            after=lambda run: check_in(store, target(run), tree, run, back=f"{tree}-from-{name}"),
            own=subjects.own_document,
        )

    return compared(bench, subject, Amount(count, "files"), 0.5)


def compared(bench, subject, amount, least):
    """The case of a subject on each database."""
    cast = [subject(name, store_on(bench, name)) for name in LABELS]
    plan = Plan(least=3, most=5, seconds=10) if bench.quick else Plan(least=10, most=20, seconds=40)
    return result.of_pairs(pairs.run(bench, cast, plan, POSTGRESQL, amount), cast, POSTGRESQL, [Bar(REDB, median=least)])


def store_on(bench, name):
    """A store of four servers with its names there."""
    key = f"store-names-in-{name}"
    if key not in bench.kept:
        place = bench.closing.enter_context(tempfile.TemporaryDirectory(prefix="thalweg-bench-", dir="/dev/shm"))
        flags = ["--servers", 4]
        if name == POSTGRESQL:
            # Its files are another user's, who has to come to them.
            os.chmod(place, 0o755)
            server = bench.closing.enter_context(Postgresql(os.path.join(place, "server"), ["names"]))
            flags += ["--metadata-database", server.address("names")]
        directory = os.path.join(place, "store")
        bench.kept[key] = bench.closing.enter_context(Store(bench.program("thalweg"), [directory], directory + ".log", flags=flags))
    return bench.kept[key]
