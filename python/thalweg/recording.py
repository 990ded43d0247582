"""A recording: what it says of itself, and its tables as Arrow tables.

A recording is a directory `NAME.thw` with `meta.json` and one Parquet data set for each table (crates/trace/SCHEMA.md has the columns). It may be
packed as a `.tar` (also `.tar.gz`, `.tar.xz`), which is read in place; only the command needs it unpacked, and gets it in a temporary directory.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
import tarfile
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import command
from .command import ThalwegError
from .needs import need

if TYPE_CHECKING:
    import pyarrow as pa

    from .explanation import Explanation

META = "meta.json"
PACKED = (".tar", ".tar.gz", ".tar.xz")
# The newest format of recordings that this package knows.
FORMAT = 2
TABLES = ("hosts", "clocks", "tracks", "objects", "spans", "marks", "counters", "samples", "stacks")
PART = re.compile(r"^host=(\d+)/[^/]+\.parquet$")


@dataclass(frozen=True)
class Meta:
    """What applies to the whole recording (`meta.json`)."""

    format: int
    command: list[str]
    recorder: str
    start_ns: int
    end_ns: int | None
    exit_code: int | None
    dropped_events: int
    attributes: dict[str, str] = field(default_factory=dict)

    @property
    def started(self) -> datetime | None:
        """When it began, by the wall clock; `None` where the recorder did not say what that was."""
        ahead = self.attributes.get("realtime_ns")
        return datetime.fromtimestamp((self.start_ns + int(ahead)) / 1e9, timezone.utc) if ahead else None

    @property
    def user(self) -> str | None:
        """Who recorded it; `None` where the recording does not say."""
        return self.attributes.get("user")

    @staticmethod
    def of(document: Any, where: str) -> Meta:
        """Read `meta.json`."""
        if not isinstance(document, dict) or not {"format", "command", "recorder", "start"} <= document.keys():
            raise ThalwegError(f"{where}: no recording's {META}; `format`, `command`, `recorder` and `start` were expected")
        if document["format"] > FORMAT:
            raise ThalwegError(f"{where}: format {document['format']}, and this package knows up to {FORMAT}; install a newer one")
        return Meta(
            format=document["format"],
            command=list(document["command"]),
            recorder=document["recorder"],
            start_ns=document["start"],
            end_ns=document.get("end"),
            exit_code=document.get("exit_code"),
            dropped_events=document.get("dropped_events", 0),
            attributes={name: value for name, value in document.get("attributes", [])},
        )


class Files(ABC):
    """The files of one recording, wherever they are."""

    @abstractmethod
    def names(self, folder: str) -> list[str]:
        """The files below a folder, as paths relative to it, sorted."""

    @abstractmethod
    def read(self, name: str) -> bytes | Path:
        """A file's bytes, or where they are; `FileNotFoundError` where there is none of that name."""

    @contextmanager
    @abstractmethod
    def directory(self) -> Iterator[Path]:
        """The recording as a directory, for the command."""


class Recording:
    """A recording, opened: its tables are read when they are asked for, and not kept."""

    def __init__(self, path: str | os.PathLike[str], name: str | None = None) -> None:
        self.path = Path(path)
        self._name = name
        self._opened: Files | None = None

    def __repr__(self) -> str:
        return f"Recording({str(self.path)!r})"

    @property
    def files(self) -> Files:
        """Its files; opening is put off until they are needed, so that one under way has a `Recording` too."""
        if self._opened is None:
            self._opened = _open(self.path, self._name)
        return self._opened

    @property
    def meta(self) -> Meta:
        """What applies to the whole recording."""
        where = str(self.path / META)
        source = self.files.read(META)
        try:
            document = json.loads(source.read_bytes() if isinstance(source, Path) else source)
        except ValueError as reason:
            raise ThalwegError(f"{where}: {reason}") from None
        return Meta.of(document, where)

    def table(self, name: str, columns: Sequence[str] | None = None, filters: Any = None) -> pa.Table:
        """One table of all hosts, with the column `host`; `columns` and `filters` are as `pyarrow.parquet.read_table` has them.

        An Arrow table becomes a data frame by its own means: `.to_pandas(types_mapper=pandas.ArrowDtype)`, `polars.from_arrow(table)`.
        """
        if name not in TABLES:
            raise ThalwegError(f"`{name}` is no table of recordings: there are {', '.join(TABLES)}")
        need("pyarrow", "tables")
        import pyarrow as pa
        import pyarrow.parquet as pq

        wanted = None if columns is None else [column for column in columns if column != "host"]
        parts = []
        for file in self.files.names(name):
            if found := PART.match(file):
                source = self.files.read(f"{name}/{file}")
                part = pq.read_table(
                    pa.BufferReader(source) if isinstance(source, bytes) else source, columns=wanted, filters=filters, partitioning=None
                )
                parts.append(part.append_column("host", pa.repeat(pa.scalar(int(found[1]), pa.uint32()), len(part))))
        if not parts:
            why = (
                "has no such table"
                if self.meta.end_ns is not None
                else "was not finished, so its tables are not there; `thalweg explain` reads it all the same"
            )
            raise ThalwegError(f"{self.path}: {name}: the recording {why}")
        table = pa.concat_tables(parts, promote_options="default")
        return table if columns is None else table.select(list(columns))

    @property
    def hosts(self) -> pa.Table:
        """The machines, and their clocks."""
        return self.table("hosts")

    @property
    def clocks(self) -> pa.Table:
        """What puts each host's clock on the reference host's axis."""
        return self.table("clocks")

    @property
    def tracks(self) -> pa.Table:
        """Threads, connections, devices, processors."""
        return self.table("tracks")

    @property
    def objects(self) -> pa.Table:
        """Files, connections, devices, servers, with their attributes."""
        return self.table("objects")

    @property
    def spans(self) -> pa.Table:
        """What happened, with start and duration."""
        return self.table("spans")

    @property
    def marks(self) -> pa.Table:
        """What happened at one instant."""
        return self.table("marks")

    @property
    def counters(self) -> pa.Table:
        """Values over time."""
        return self.table("counters")

    @property
    def samples(self) -> pa.Table:
        """What ran on each processor."""
        return self.table("samples")

    @property
    def stacks(self) -> pa.Table:
        """The stacks of samples and waits."""
        return self.table("stacks")

    def explain(self, **named: Any) -> Explanation:
        """Where its time went; the arguments are those of :func:`thalweg.explain`."""
        from .explaining import explain

        return explain(self, **named)

    def text(self, verbose: bool = False) -> str:
        """The explanation as the command prints it for people."""
        with self.files.directory() as directory:
            return command.run(["explain", *(["-v"] if verbose else []), directory]).decode()

    def svg(self, width: int = 1400) -> str:
        """The picture: critical path, throughput, threads and connections."""
        return self._report(f"--width={width}", name="picture.svg")

    def html(self) -> str:
        """The page: the picture and tables."""
        return self._report(name="page.html")

    def _report(self, *flags: str, name: str) -> str:
        with self.files.directory() as directory, tempfile.TemporaryDirectory(prefix="thalweg-") as scratch:
            out = Path(scratch) / name
            command.run(["report", directory, "-o", out, *flags])
            return out.read_text(encoding="utf-8")


class _Directory(Files):
    """A recording that is a directory."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def names(self, folder: str) -> list[str]:
        root = self.root / folder
        return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())

    def read(self, name: str) -> Path:
        path = self.root / name
        if not path.is_file():
            raise FileNotFoundError(path)
        return path

    @contextmanager
    def directory(self) -> Iterator[Path]:
        yield self.root


class Packed(Files):
    """A recording in a tar: `root` is the folder in it that holds `meta.json`."""

    def __init__(self, archive: tarfile.TarFile, members: dict[str, tarfile.TarInfo], root: str) -> None:
        self.archive = archive
        self.members = {posixpath.relpath(name, root or "."): member for name, member in members.items() if not root or name.startswith(f"{root}/")}

    def names(self, folder: str) -> list[str]:
        return sorted(name.removeprefix(f"{folder}/") for name in self.members if name.startswith(f"{folder}/"))

    def read(self, name: str) -> bytes:
        if name not in self.members:
            raise FileNotFoundError(name)
        source = self.archive.extractfile(self.members[name])
        return source.read() if source else b""

    @contextmanager
    def directory(self) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="thalweg-") as scratch:
            into = Path(scratch) / "packed.thw"
            for name in self.members:
                (into / name).parent.mkdir(parents=True, exist_ok=True)
                (into / name).write_bytes(self.read(name))
            yield into


def packed(archive: tarfile.TarFile) -> dict[str, Packed]:
    """The recordings in a tar, by the folder that each is in (`""`: the tar's own top). Only plain files below that folder are seen."""
    members = {}
    for member in archive:
        name = posixpath.normpath(member.name)
        if member.isfile() and not name.startswith(("/", "../")):
            members[name] = member
    roots = sorted(posixpath.dirname(name) for name in members if posixpath.basename(name) == META)
    return {root: Packed(archive, members, root) for root in roots}


def _open(path: Path, name: str | None) -> Files:
    if path.is_dir():
        if not (path / META).is_file():
            raise ThalwegError(f"{path}: no recording: it has no {META}")
        return _Directory(path)
    if not path.exists():
        raise ThalwegError(f"{path}: there is no such recording")
    try:
        found = packed(tarfile.open(path))
    except (tarfile.TarError, EOFError, OSError) as reason:
        raise ThalwegError(f"{path}: neither a directory nor a tar of recordings: {reason}") from None
    by_name = {posixpath.basename(root) or path.name: files for root, files in found.items()}
    if name is not None and name not in by_name:
        raise ThalwegError(f"{path}: no recording `{name}` in it: there are {', '.join(by_name) or 'none'}")
    if name is None and len(by_name) != 1:
        holds = (
            f"holds {len(by_name)} recordings: say which with name=: {', '.join(by_name)}" if by_name else f"holds no recording: no {META} is in it"
        )
        raise ThalwegError(f"{path}: {holds}")
    return by_name[name] if name is not None else next(iter(by_name.values()))
