"""One large file in or out through a mounted store, beside the store's own copy and other people's mounts.

All commands on mounts are the same `cp`. The ceiling is a FUSE server that does nothing (`bench/loops/nothing.c`) with requests of the same size. Reading, what the kernel kept of the file is dropped before each run and its servers' files
are in the page cache; writing, the copy has ended when `close` has: all bytes are at the servers.
"""

import os
import subprocess

from bench.harness import pairs, result, subjects
from bench.harness.bench import whole
from bench.harness.cases.copies import plan
from bench.harness.loops import compiled
from bench.harness.pairs import Subject
from bench.harness.result import Amount, Bar
from testbed import files, shell
from testbed.errors import Broken, NotRun
from testbed.processes import Process
from testbed.store import Mount

NOTHING = "a mount that does nothing"
BARS = [Bar("nothing", median=0.45), Bar("thalweg", median=0.50), Bar("sshfs", median=1.0), Bar("nfs-cp", median=1.0)]


def mounted(direction, size_bytes, bench):
    """The mount first, then what it is measured against."""
    source = bench.source(size_bytes)
    store = bench.store()
    here = mount_of(bench, store)
    cast = [through(bench, "mount", "mounted store", here, direction, source, files_of=store.directories[0])]
    cast.append(subjects.thalweg(bench, store, direction, source, sync=False))
    absent = []
    try:
        cast.append(nothing(bench, direction, source))
    except NotRun as reason:
        absent.append({"name": "nothing", "label": NOTHING, "reason": str(reason)})
    try:
        there = bench.server("sshfs")
        cast.append(through(bench, "sshfs", "sshfs", there.mounted, direction, source, files_of=there.root))
    except NotRun as reason:
        absent.append({"name": "sshfs", "label": "sshfs", "reason": str(reason)})
    try:
        cast.append(subjects.nfs_cp(bench, direction, source, sync=False))
    except NotRun as reason:
        absent.append({"name": "nfs-cp", "label": "nfs-cp", "reason": str(reason)})
    outcome = pairs.run(bench, cast, plan(bench, size_bytes), "mount", Amount(size_bytes, "bytes"), bench.memory(size_bytes))
    document = result.of_pairs(outcome, cast, "mount", BARS)
    return {**document, "absent": absent}


class DoesNothing:
    """The do-nothing FUSE server, mounted while this is entered."""

    def __init__(self, bench, size_bytes):
        self.program = compiled(bench, "nothing")
        self.path = bench.path("nothing", "place")
        os.makedirs(self.path, exist_ok=True)
        self.process = Process([self.program, "-s", str(size_bytes), self.path], bench.path("nothing", "log"))

    def __enter__(self):
        self.process.wait_until(f"the mount at {self.path}", lambda: self.path in shell.mount_points(), NotRun)
        return self

    def __exit__(self, *_):
        subprocess.run(["umount", self.path], capture_output=True, check=False)
        self.process.stop()


def nothing(bench, direction, source):
    """`cp` into or out of a mount that does nothing: bytes are dropped, or are zeros."""
    size_bytes = os.path.getsize(source)
    key = ("nothing", size_bytes)
    if key not in bench.kept:
        bench.kept[key] = bench.closing.enter_context(DoesNothing(bench, size_bytes))
    place = bench.kept[key].path

    def check(target):
        if os.path.getsize(target) != size_bytes:
            raise Broken(f"{target} is not as long as {source}")
        os.remove(target)

    if direction == "in":
        into = lambda run: os.path.join(place, f"copy-{run}")  # noqa: E731
        command = lambda run: ["cp", source, into(run)]  # noqa: E731
        return Subject("nothing", NOTHING, command, before=lambda run: subjects.warm(source), after=lambda run: check(into(run)))
    inside = os.path.join(place, "source")
    out = lambda run: bench.path("out", f"nothing-{run}")  # noqa: E731
    return Subject(
        "nothing",
        NOTHING,
        command=lambda run: ["cp", inside, out(run)],
        before=lambda _run: files.drop(inside),
        after=lambda run: check(out(run)),
    )


def mount_of(bench, store):
    """The store's mount, which is taken away with the bench."""
    key = (store.address, "mount")
    if key not in bench.kept:
        mount = Mount(store.program, store.address, bench.path("mount", "place"), bench.path("mount", "log"))
        bench.kept[key] = bench.closing.enter_context(mount)
    return bench.kept[key].path


def through(bench, name, label, place, direction, source, files_of):
    """`cp` into or out of a mounted directory whose bytes are in files under `files_of`."""
    size_bytes = os.path.getsize(source)
    if direction == "in":
        target = lambda run: os.path.join(place, f"{name}-{size_bytes}-{run}")  # noqa: E731

        def check(run):
            try:
                if os.path.getsize(target(run)) != size_bytes:
                    raise Broken(f"{target(run)} is not a whole copy of {source}")
                if run == 0:
                    files.drop(target(run))
                    whole(target(run), source, run)
            finally:
                os.remove(target(run))

        command = lambda run: ["cp", source, target(run)]  # noqa: E731
        return Subject(name, label, command, before=lambda run: subjects.warm(source), after=check)
    inside = os.path.join(place, f"source-{os.path.basename(source)}")
    if not os.path.exists(inside) or os.path.getsize(inside) != size_bytes:
        subprocess.run(["cp", source, inside], check=True)
    target = lambda run: bench.path("out", f"{name}-{run}")  # noqa: E731

    def before(_run):
        files.drop(inside)
        subjects.warm(*files.files_under(files_of, at_least_bytes=1 << 16))

    return Subject(
        name,
        label,
        command=lambda run: ["cp", inside, target(run)],
        before=before,
        after=lambda run: subjects.check_and_remove(target(run), source, run),
    )
