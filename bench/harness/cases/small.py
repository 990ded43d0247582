"""Many small files in and out, beside a plain `cp -r` on the same file system."""

import os

from harness import files, pairs, result, subjects
from harness.command import CommandFailed
from harness.pairs import Plan, Subject
from harness.result import Amount, Bar

SIZE_BYTES = 4096


def small_files(direction, bench):
    """A tree of 10,000 files of 4 KiB (a quick run: 2,000)."""
    count = 2_000 if bench.quick else 10_000
    tree = files.make_small_files(bench.path(f"small-{count}"), count, SIZE_BYTES)
    store = bench.store()
    if direction == "in":
        name = lambda run: f"small-{run}"  # noqa: E731
        thalweg = Subject(
            "thalweg",
            "Thalweg, cp -r",
            command=lambda run: [store.program, "cp", "--json", "-r", tree, store.url(name(run))],
            before=lambda run: subjects.warm(*files.files_under(tree)),
            after=lambda run: check_in(bench, store, name(run), tree, run),
            own=subjects.own_document,
        )
    else:
        store.run("cp", "-r", tree, store.url("small-source"))
        target = lambda run: bench.path("out", f"small-{run}")  # noqa: E731
        thalweg = Subject(
            "thalweg",
            "Thalweg, cp -r",
            command=lambda run: [store.program, "cp", "--json", "-r", store.url("small-source"), target(run)],
            after=lambda run: check_tree(target(run), tree, run),
            own=subjects.own_document,
        )
    copied = lambda run: bench.path("out", f"cp-{run}")  # noqa: E731
    plain = Subject(
        "cp",
        "cp -r, no store",
        command=lambda run: ["cp", "-r", tree, copied(run)],
        before=lambda run: subjects.warm(*files.files_under(tree)),
        after=lambda run: check_tree(copied(run), tree, run),
    )
    plan = Plan(least=3, most=5, seconds=10) if bench.quick else Plan(least=10, most=20, seconds=40)
    outcome = pairs.run([thalweg, plain], plan, "thalweg", bench.note)
    if direction == "out":
        store.remove("small-source")
    return result.of_pairs(outcome, [thalweg, plain], "thalweg", Amount(count, "files"), [Bar("cp")])


def check_in(bench, store, name, tree, run):
    """Before the first round the tree is copied back and compared; it is always removed."""
    try:
        if run == 0:
            back = bench.path("check", "small")
            store.run("cp", "-r", store.url(name), back)
            check_tree(back, tree, run)
    finally:
        store.remove(name)


def check_tree(copy, tree, run):
    """As many files as the tree has, of its size; before the first round also its bytes. Removes the copy."""
    try:
        found = {os.path.relpath(path, copy) for path in files.files_under(copy)}
        wanted = {os.path.relpath(path, tree) for path in files.files_under(tree)}
        if found != wanted:
            raise CommandFailed(f"{copy}: {len(found)} files, {len(wanted)} were copied")
        if run == 0:
            for name in wanted:
                if not files.same_bytes(os.path.join(copy, name), os.path.join(tree, name)):
                    raise CommandFailed(f"{os.path.join(copy, name)} differs from its source")
    finally:
        files.remove(copy)
