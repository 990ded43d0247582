"""Many small files in and out, beside a plain `cp -r` on the same file system.

What a run wrote stays until the bench is closed: ext4 without a journal does not reuse an inode for minutes after it was freed
and steps over each of them when it makes a file, so that removing one round's files would slow the next round down.
"""

import os

from bench.harness import pairs, result, subjects
from bench.harness.cases.mounted import mount_of
from bench.harness.pairs import Plan, Subject
from bench.harness.result import Amount, Bar
from testbed import files
from testbed.errors import Broken, NotRun

SIZE_BYTES = 4096
# 30,000 of them are the 1.2 GB of a published comparison of mounts.
MOUNTED_BYTES = 40 << 10
LEAST_PER_S = 5_000
# Other mounts, by the names of their servers.
PEERS = {"sshfs": "sshfs, cp -r", "juicefs": "JuiceFS, cp -r"}


def small_files(direction, bench):
    """A tree of 10,000 files of 4 KiB (a quick run: 2,000)."""
    count = 2_000 if bench.quick else 10_000
    tree = files.make_small_files(bench.path(f"small-{count}"), count, SIZE_BYTES)
    store = bench.store()
    if direction == "in":
        thalweg = into_store(store, tree, "small")
    else:
        if "small-source" not in bench.kept:
            store.run("cp", "-r", tree, store.url("small-source"))
            bench.kept["small-source"] = True
        target = lambda run: bench.path("out", f"small-{run}")  # noqa: E731
        thalweg = Subject(
            "thalweg",
            "Thalweg, cp -r",
            command=lambda run: [store.program, "cp", "--json", "-r", store.url("small-source"), target(run)],
            after=lambda run: check_tree(target(run), tree, run),
            own=subjects.own_document,
        )
    plain = into_directory("cp", "cp -r, no store", tree, lambda run: bench.path("out", f"cp-{direction}-{run}"))
    plan = Plan(least=3, most=5, seconds=10) if bench.quick else Plan(least=10, most=20, seconds=40)
    outcome = pairs.run(bench, [thalweg, plain], plan, "thalweg", Amount(count, "files"))
    return result.of_pairs(outcome, [thalweg, plain], "thalweg", [Bar("cp")])


def small_files_mounted(bench):
    """`cp -r` of 30,000 files of 40 KiB (a quick run: 2,000) into a mount, beside the library, other mounts and the file system below."""
    count = 2_000 if bench.quick else 30_000
    tree = files.make_small_files(bench.path(f"mounted-{count}"), count, MOUNTED_BYTES)
    store = bench.store()

    def into(name, label, place):
        return into_directory(name, label, tree, lambda run: os.path.join(place, f"{name}-{count}-{run}"))

    library = into_store(store, tree, f"library-{count}")
    cast, absent = [into("mount", "mounted store, cp -r", mount_of(bench, store)), library, into("cp", "cp -r, no store", bench.path("out", "."))], []
    for name, label in PEERS.items():
        try:
            cast.append(into(name, label, bench.server(name).mounted))
        except NotRun as reason:
            absent.append({"name": name, "label": label, "reason": str(reason)})
    plan = Plan(least=3, most=5, seconds=10) if bench.quick else Plan(least=3, most=5, seconds=120)
    outcome = pairs.run(bench, cast, plan, "mount", Amount(count, "files"))
    document = result.of_pairs(outcome, cast, "mount", [Bar("thalweg"), Bar("sshfs", median=1.0), Bar("juicefs", median=1.0), Bar("cp")])
    rate = outcome.of("mount")["rate_per_s"]
    document["bars"].append(result.absolute_bar("files a second through the mount", f"≥ {LEAST_PER_S:,}", rate, rate["median"] >= LEAST_PER_S))
    return {**document, "absent": absent}


def into_store(store, tree, begins):
    """The store's own copy of a tree, to a name that begins so."""
    name = lambda run: f"{begins}-{run}"  # noqa: E731
    return Subject(
        "thalweg",
        "Thalweg, cp -r",
        command=lambda run: [store.program, "cp", "--json", "-r", tree, store.url(name(run))],
        before=lambda run: subjects.warm(*files.files_under(tree)),
        after=lambda run: check_in(store, name(run), tree, run),
        own=subjects.own_document,
    )


def into_directory(name, label, tree, target):
    """`cp -r` of a tree to the path that `target` gives for a run."""
    return Subject(
        name,
        label,
        command=lambda run: ["cp", "-r", tree, target(run)],
        before=lambda run: subjects.warm(*files.files_under(tree)),
        after=lambda run: check_tree(target(run), tree, run),
    )


def check_in(store, name, tree, run, back=None):
    """Before the first round the tree is copied back and compared; a later copy is whole when the command says so."""
    if run == 0:
        back = back or f"{tree}-back"
        store.run("cp", "-r", store.url(name), back)
        check_tree(back, tree, run)


def check_tree(copy, tree, run):
    """As many files as the tree has, under the same names; before the first round also their bytes."""
    found = {os.path.relpath(path, copy) for path in files.files_under(copy)}
    wanted = {os.path.relpath(path, tree) for path in files.files_under(tree)}
    if found != wanted:
        raise Broken(f"{copy}: {len(found)} files, {len(wanted)} were copied")
    if run == 0:
        for name in wanted:
            if not files.same_bytes(os.path.join(copy, name), os.path.join(tree, name)):
                raise Broken(f"{os.path.join(copy, name)} differs from its source")
