"""What a worker does, in whichever engine: explain some recordings, and put their rows into the table.

A job is a plain dictionary and says all that there is to know, so that any engine can carry it. Doing a job twice, at once or one after the other,
leaves the same files as doing it once: a file's name is made of the recordings that it holds.
"""

from __future__ import annotations

import json
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from .. import command
from ..command import ThalwegError
from ..explaining import document
from ..recording import META, Recording, packed
from . import table
from .places import Place
from .rows import Row, failed, file_systems_of, rows
from .sources import Source

# What a job says: the root of the recordings, the table, the recordings' sources, the command, and how long one may take.
Job = dict[str, Any]


def do(job: Job) -> dict[str, int]:
    """Explain the job's recordings and write their rows; returns how many were explained, and how many of them have an error."""
    root, program = Place.of(job["root"]), job["program"] or command.find()
    version = command.run(["-V"], program=program).decode().strip()
    counted = {"recordings": 0, "errors": 0}
    made: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="thalweg-fleet-") as scratch:
        for source in (Source(*one) for one in job["sources"]):
            found = list(_of_source(root, source, Path(scratch), partial(_explained, program, job["timeout_s"])))
            for of_recording in found:
                counted["recordings"] += 1
                counted["errors"] += bool(of_recording[0].get("error"))
                origin = {"source": source.path, "source_version": source.version, "source_recordings": len(found), "explained_by": version}
                made += [{**row, **origin} for row in of_recording]
    table.put(Place.of(job["table"]), made)
    return counted


def _of_source(root: Place, source: Source, scratch: Path, explained: Any) -> Iterator[list[Row]]:
    """The rows of each recording of a source; of one that cannot be read, the one row that says why."""
    try:
        with root.local(source.path, scratch) as path:
            for name, recording in recordings(path, source):
                yield _guarded(name, recording, explained)
    except (ThalwegError, OSError, EOFError, tarfile.TarError, pa.ArrowException) as reason:
        yield [failed(source.path, _words(reason, root, source))]


def recordings(path: Path, source: Source) -> Iterator[tuple[str, Recording]]:
    """The recordings of a source, each with its name in the table."""
    if not source.is_packed:
        yield source.path, Recording(path)
        return
    with tarfile.open(path) as archive:
        found = packed(archive)
        if not found:
            raise ThalwegError(f"holds no recording: no {META} is in it")
        for root, files in found.items():
            with files.directory() as directory:
                yield f"{source.path}/{root}" if root else source.path, Recording(directory)


def _guarded(name: str, recording: Recording, explained: Any) -> list[Row]:
    try:
        return rows(name, *explained(recording))
    except (ThalwegError, OSError, pa.ArrowException, KeyError, ValueError) as reason:
        return [failed(name, _without(str(recording.path), f"{reason}", name))]


def _explained(program: str, timeout_s: float, recording: Recording) -> tuple[dict[str, Any], Any, str | None, dict[str, str]]:
    """What the rows are made of: the explanation, and what the recording says of where and when."""
    meta = recording.meta
    said = command.run(["explain", "--json", recording.path], timeout_s, program)
    hosts = recording.table("hosts", ["name", "host"]).to_pylist() if meta.end_ns is not None else []
    host = next((row["name"] for row in hosts if row["host"] == 0), None)
    file_systems = file_systems_of(recording.table("objects", ["name", "attributes"])) if meta.end_ns is not None else {}
    return document(said, str(recording.path)), meta, host, file_systems


def _words(reason: Exception, root: Place, source: Source) -> str:
    return _without(root.path(source.path), f"{reason}", source.path)


def _without(path: str, words: str, name: str) -> str:
    """An error's words with the recording's own name, wherever a copy of it was."""
    return " ".join(words.replace(path, name).split())


def job_of(root: str, into: str, sources: Iterable[Source], program: str | None, timeout_s: float) -> Job:
    """A job, as an engine carries it."""
    return {"root": root, "table": into, "sources": [[one.path, one.version] for one in sources], "program": program, "timeout_s": timeout_s}


def do_line(line: str) -> str:
    """A job and its result as lines of JSON."""
    return json.dumps(do(json.loads(line)))
