"""What checksums at rest cost: the same work on a store that has them and on one without, as an earlier release makes it, in turn."""

import os
import sys

from bench.harness import pairs, result, subjects
from bench.harness.cases.small import SIZE_BYTES, check_tree
from bench.harness.pairs import Plan, Subject
from bench.harness.result import Amount, Bar
from testbed import files
from testbed.errors import Broken
from testbed.store import Mount, Store

WITH, WITHOUT = "with", "without"
LABELS = {WITH: "with checksums", WITHOUT: "without"}
BLOCK = 4096
# Work on a file through a mount: PATH, how often. It ends with an fsync.
OVERWRITES = """import os, sys
f, n = os.open(sys.argv[1], os.O_WRONLY), int(sys.argv[2])
blocks = os.fstat(f).st_size // 4096
for i in range(n):
    os.pwrite(f, bytes([i & 255]) * 4096, i * 7919 % blocks * 4096)
os.fsync(f)"""
APPENDS = """import os, sys
f = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
for i in range(int(sys.argv[2])):
    os.write(f, bytes([i & 255]) * 100)
os.fsync(f)"""


def stores(bench):
    """The store of the other cases, and one like it whose targets are of the format without checksums."""
    key = "store-without-sums"
    if key not in bench.kept:
        directory = bench.path(key)

        # Each start has its own log: the address of the last one is looked for in it.
        def store(log):
            return Store(bench.program("thalweg"), [directory], f"{directory}-{log}.log", flags=["--servers", 4])

        with store("made"):
            pass
        identities = [path for path in files.files_under(directory) if os.path.basename(path) == "thalweg-target.toml"]
        for path in identities:
            with open(path, encoding="utf-8") as identity:
                text = identity.read()
            with open(path, "w", encoding="utf-8") as identity:
                identity.write(text.replace("format = 2", "format = 1", 1))
        started = bench.closing.enter_context(store("served"))
        if started.run("df", "--store", started.address).count("no checksums at rest") != 1:
            raise Broken(f"{directory}: `df` does not say that it has no checksums")
        bench.kept[key] = started
    return {WITH: bench.store(), WITHOUT: bench.kept[key]}


def mount_of(bench, name, store):
    """The store's mount, which is taken away with the bench."""
    key = (store.address, "sums-mount")
    if key not in bench.kept:
        mount = Mount(store.program, store.address, bench.path(f"sums-mount-{name}", "place"), bench.path(f"sums-mount-{name}", "log"))
        bench.kept[key] = bench.closing.enter_context(mount)
    return bench.kept[key].path


def copied(direction, size_bytes, bench):
    """One large file."""
    source = bench.source(size_bytes)
    cast = [
        subjects.thalweg(bench, store, direction, source, sync=False, name=f"sums-{name}", label=LABELS[name])
        for name, store in stores(bench).items()
    ]
    return compared(bench, cast, Amount(size_bytes, "bytes"), 0.95, bench.memory(size_bytes))


def small(count, bench):
    """A tree of small files into the store."""
    tree = files.make_small_files(bench.path(f"small-{count}"), count, SIZE_BYTES)

    def subject(name, store):
        target = lambda run: f"sums-small-{run}"  # noqa: E731

        def check(run):
            if run == 0:
                back = bench.path("check", f"sums-{name}")
                store.run("cp", "-r", store.url(target(run)), back)
                check_tree(back, tree, run)
                files.remove(back)
            store.remove(target(run))

        command = lambda run: [store.program, "cp", "--json", "-r", tree, store.url(target(run))]  # noqa: E731
        return Subject(f"sums-{name}", LABELS[name], command, after=check, own=subjects.own_document)

    return compared(bench, [subject(*one) for one in stores(bench).items()], Amount(count, "files"), 0.95)


def mounted(kind, count, bench):
    """`dd bs=4k`, overwrites of 4 KiB at random, or appends of 100 bytes through a mount."""

    def subject(name, store):
        place = mount_of(bench, name, store)
        path = lambda run: os.path.join(place, f"sums-{kind}-{run}")  # noqa: E731
        size = {"dd": count * BLOCK, "overwrite": 64 << 20, "append": count * 100}[kind]

        def before(run):
            if kind == "overwrite":
                files.make_source(path(run), size)

        def after(run):
            found = os.path.getsize(path(run))
            os.remove(path(run))
            if found != size:
                raise Broken(f"{path(run)} has {found} bytes, expected {size}")

        def command(run):
            if kind == "dd":
                return ["dd", "if=/dev/zero", f"of={path(run)}", "bs=4k", f"count={count}", "conv=fsync", "status=none"]
            return [sys.executable, "-c", OVERWRITES if kind == "overwrite" else APPENDS, path(run), str(count)]

        return Subject(f"sums-{name}", LABELS[name], command, before=before, after=after)

    least = {"dd": 0.90, "overwrite": 0.80, "append": 0.90}[kind]
    return compared(bench, [subject(*one) for one in stores(bench).items()], Amount(count, "writes"), least)


def compared(bench, cast, amount, least, before_round=None):
    """Many pairs: what is asked is within a few per cent."""
    plan = Plan(least=5, most=8, seconds=10) if bench.quick else Plan(least=20, most=100, seconds=60, narrow=0.02)
    reference = f"sums-{WITH}"
    outcome = pairs.run(bench, cast, plan, reference, amount, before_round)
    return result.of_pairs(outcome, cast, reference, [Bar(f"sums-{WITHOUT}", median=least)])
