"""How each program copies one file in or out: the subjects that cases are put together from.

`direction` is seen from the client's file: `in` goes from a local file to the server, `out` from the server to a local file. All
copy the same source, which is in the page cache, into a file that did not exist before, and all of it is on one file system.
`sync` means that the bytes are on the device when the command is done: with the program's own means where it has one, otherwise
with sync(1) on the target file as part of the timed command.
"""

import json
import os
import shlex

from bench.harness.bench import whole
from bench.harness.pairs import Subject
from testbed import files
from testbed.errors import Broken

GRIDFTP_SETTINGS = {
    1: {"stream": [], "p1": ["-p", "1"], "p1-bs1M": ["-p", "1", "-tcp-bs", "1048576"]},
    4: {"p4": ["-p", "4"], "p4-bs1M": ["-p", "4", "-tcp-bs", "1048576"]},
}


def thalweg(bench, store, direction, source, sync, name="thalweg", label=None, extra=lambda run: [], within="", place=None):
    """`thalweg cp`, with its defaults; in a directory of the store (`within`, with its slash), to local files of another `place` than the bench's."""
    place = place or bench
    size_bytes = os.path.getsize(source)
    flags = ["--json"] + (["--sync"] if sync else [])
    label = label or ("Thalweg, --sync" if sync else "Thalweg")
    if direction == "in":
        target = lambda run: f"{within}{name}-{size_bytes}-{run}"  # noqa: E731

        def check(run):
            try:
                if store.size_bytes(target(run)) != size_bytes:
                    raise Broken(f"{store.url(target(run))} is not a whole copy of {source}")
                if run == 0:
                    back = place.path("check", name)
                    store.run("cp", "--force", store.url(target(run)), back)
                    whole(back, source, run)
                    files.remove(back)
            finally:
                store.remove(target(run))

        return Subject(
            name,
            label,
            command=lambda run: store.host.argv([store.program, "cp", *flags, *extra(run), source, store.url(target(run))]),
            before=lambda run: warm(source),
            after=check,
            own=own_document,
        )
    inside = put_once(bench, store, source)
    target = lambda run: place.path("out", f"{name}-{run}")  # noqa: E731
    return Subject(
        name,
        label,
        command=lambda run: store.host.argv([store.program, "cp", *flags, *extra(run), store.url(inside), target(run)]),
        before=lambda run: warm(*files.files_under(store.directories[0], at_least_bytes=1 << 16)),
        after=lambda run: check_and_remove(target(run), source, run),
        own=own_document,
    )


def put_once(bench, store, source):
    """The source's name in the store; copied in if it is not there yet."""
    key = (store.address, source)
    if key not in bench.kept:
        name = f"source-{os.path.basename(source)}"
        store.run("cp", "--force", source, store.url(name))
        bench.kept[key] = name
    return bench.kept[key]


def own_document(text):
    """What the command said about itself as JSON; None if it said nothing that is JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return None


def gridftp(bench, direction, source, sync, streams):
    """`globus-url-copy` with 1 or 4 streams, once per setting that could be its fastest."""
    server = bench.server("gridftp")
    plural = "stream" if streams == 1 else "streams"
    label = f"GridFTP, {streams} {plural}" + (", then sync" if sync else "")

    def subject(setting, flags):
        target = lambda run: bench.path("gridftp-files", f"{streams}-{setting}-{run}")  # noqa: E731

        def command(run):
            one, other = ("file://" + source, server.address(target(run)))
            if direction == "out":
                one, other = (server.address(source), "file://" + target(run))
            return then_sync(["globus-url-copy", *flags, one, other], target(run), sync)

        return Subject(
            f"gridftp-{streams}-{setting}",
            label,
            command,
            before=lambda run: warm(source),
            after=lambda run: check_and_remove(target(run), source, run),
        )

    return [subject(setting, flags) for setting, flags in GRIDFTP_SETTINGS[streams].items()]


def nfs_cp(bench, direction, source, sync):
    """`nfs-cp`, which commits what it wrote to a server before it ends."""
    server = bench.server("nfs")
    label = "nfs-cp" + (", then sync" if sync and direction == "out" else "")
    if direction == "in":
        # Ganesha keeps removed files: no name may be used twice, also not by another case.
        number = next(bench.numbers)
        name = lambda run: f"in-{number}-{run}"  # noqa: E731

        def check(run):
            try:
                whole(os.path.join(server.root, name(run)), source, run)
            finally:
                server.remove(name(run))

        return Subject(
            "nfs-cp",
            label,
            command=lambda run: ["nfs-cp", source, server.address(name(run))],
            before=lambda run: warm(source),
            after=check,
        )
    exported = os.path.basename(source)
    if not os.path.exists(os.path.join(server.root, exported)):
        os.link(source, os.path.join(server.root, exported))
    target = lambda run: bench.path("out", f"nfs-{run}")  # noqa: E731
    return Subject(
        "nfs-cp",
        label,
        command=lambda run: then_sync(["nfs-cp", server.address(exported), target(run)], target(run), sync),
        before=lambda run: warm(source),
        after=lambda run: check_and_remove(target(run), source, run),
    )


def then_sync(argv, path, sync):
    """The command itself, or the command followed by fsync of the file."""
    if not sync:
        return argv
    return ["sh", "-c", f"{shlex.join(argv)} && exec sync {shlex.quote(path)}"]


def warm(*paths):
    """The source in the page cache; a case whose source is not there is not the case it claims to be."""
    share = files.warm(list(paths))
    if share is not None and share < 0.98:
        raise Broken(f"only {share:.1%} of the source stays in the page cache: {paths[0]}")


def check_and_remove(path, source, run):
    """The copy is whole; afterwards it is gone."""
    try:
        whole(path, source, run)
    finally:
        files.remove(path)
