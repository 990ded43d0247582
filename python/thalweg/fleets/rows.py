"""From an explanation to the rows of a fleet's table. Pure: documents in, rows out.

Each recording has one row of the kind `recording`, one for each charge, for each transfer and for each what-if. All of them say who, where and
when, so that no question needs a join.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from ..recording import Meta

UTC_MICROSECONDS = pa.timestamp("us", tz="UTC")

# The columns, each with what it is; `day` is in the path, not in the files.
COLUMNS: dict[str, tuple[pa.DataType, str]] = {
    "kind": (pa.string(), "what the row is: recording, charge, transfer, what_if"),
    "recording": (pa.string(), "the recording's path below the fleet's directory; for a recording in a pack, PACK/NAME"),
    "source": (pa.string(), "the directory or pack that it came from"),
    "source_version": (pa.string(), "the version of the source; when it changes, the source is explained again"),
    "source_recordings": (pa.int64(), "how many recordings the source holds"),
    "error": (pa.string(), "why the recording could not be explained; such a recording has only this row"),
    "host": (pa.string(), "the machine that the command ran on"),
    "user_name": (pa.string(), "who recorded it"),
    "program": (pa.string(), "the command's first word, without its directory"),
    "command": (pa.list_(pa.string()), "the command"),
    "recorder": (pa.string(), "which recorder made it"),
    "started": (UTC_MICROSECONDS, "when it began, by the wall clock"),
    "source_path": (pa.string(), "what the transfer read; in rows of other kinds, what the recording's largest transfer read"),
    "sink_path": (pa.string(), "what the transfer wrote; in rows of other kinds, what the recording's largest transfer wrote"),
    "source_file_system": (pa.string(), "the file system of what was read, if it is a file"),
    "sink_file_system": (pa.string(), "the file system of what was written, if it is a file"),
    "file_system": (
        pa.string(),
        "of a charge: the file system of the file that was waited for, if the charge names a file; "
        "of other rows: the source's file system, or the sink's if the source has none",
    ),
    "wall_s": (pa.float64(), "how long the command took; of a transfer, from its first request to its last"),
    "size_bytes": (pa.int64(), "how many bytes were moved"),
    "cause": (pa.string(), "of a charge: its cause; of a recording: the verdict's"),
    "place": (pa.string(), "where: of a charge, of the verdict"),
    "seconds": (pa.float64(), "of a charge: how much of the wall time"),
    "share": (pa.float64(), "of a charge: its seconds as a part of the wall time; of a recording: the verdict's share"),
    "slack_s": (pa.float64(), "of a charge: how many seconds it can shrink before another chain is critical"),
    "basis": (pa.string(), "of a charge: recorded or inferred; of a what-if: replayed or bounded"),
    "status": (pa.string(), "of a recording: limited, inconclusive, healthy, unsure"),
    "sentence": (pa.string(), "of a recording: the verdict in one sentence; of a charge: the evidence; of a what-if: the change"),
    "exit_code": (pa.int64(), "of a recording: how the command ended"),
    "dropped_events": (pa.int64(), "of a recording: how many events were lost"),
    "model_error": (pa.float64(), "of a recording: how far the replay is off"),
    "change": (pa.string(), "of a what-if: which change, by its name"),
    "predicted_wall_s": (pa.float64(), "of a what-if: the wall time with it"),
    "saved_s": (pa.float64(), "of a what-if: the wall time less the predicted one; 0 if the prediction is only a bound"),
    "how": (pa.string(), "of a what-if: how to make the change"),
    "gives_up": (pa.string(), "of a what-if: what it gives up"),
    "explained_by": (pa.string(), "which thalweg explained it"),
}
FILE_SCHEMA = pa.schema([pa.field(name, kind, metadata={"description": about}) for name, (kind, about) in COLUMNS.items()])

Row = dict[str, Any]


def failed(recording: str, error: str) -> Row:
    """The one row of a recording that could not be explained."""
    return {"kind": "recording", "recording": recording, "error": error}


def rows(recording: str, document: dict[str, Any], meta: Meta, host: str | None, file_systems: dict[str, str]) -> list[Row]:
    """All rows of a recording. `file_systems` has that of each file by its path."""
    transfers = document["transfers"]
    largest: dict[str, Any] = max(transfers, key=lambda one: one["size_bytes"], default={})
    common = {
        "recording": recording,
        "host": host,
        "user_name": meta.user,
        "program": os.path.basename(document["command"][0]) if document["command"] else None,
        "command": document["command"],
        "recorder": document["recorder"],
        "started": meta.started,
    }
    about = {**common, **_ends(largest, file_systems)}
    made = [{**about, **_recording(document, meta)}]
    made += [{**about, **_charge(charge, file_systems)} for charge in document["critical_path"]]
    made += [{**common, **_ends(one, file_systems), **_transfer(one)} for one in transfers]
    made += [{**about, **_what_if(one, document["wall_s"])} for one in document["what_if"]]
    return made


def _ends(transfer: dict[str, Any], file_systems: dict[str, str]) -> Row:
    source, sink = transfer.get("from", ""), transfer.get("to", "")
    ends = {"source_file_system": file_systems.get(source), "sink_file_system": file_systems.get(sink)}
    return {"source_path": source or None, "sink_path": sink or None, **ends, "file_system": ends["source_file_system"] or ends["sink_file_system"]}


def _recording(document: dict[str, Any], meta: Meta) -> Row:
    verdict = document["verdict"]
    return {
        "kind": "recording",
        "wall_s": document["wall_s"],
        "size_bytes": document.get("size_bytes"),
        "cause": verdict["cause"],
        "place": verdict["where"],
        "share": verdict["share"],
        "status": verdict["status"],
        "sentence": verdict["sentence"],
        "exit_code": meta.exit_code,
        "dropped_events": document["dropped_events"],
        "model_error": document["model"].get("error"),
    }


def _charge(charge: dict[str, Any], file_systems: dict[str, str]) -> Row:
    return {
        "kind": "charge",
        "cause": charge["cause"],
        "place": charge["where"],
        "seconds": charge["seconds"],
        "share": charge["share"],
        "slack_s": charge["slack_s"],
        "basis": charge["basis"],
        "sentence": charge["evidence"],
        "file_system": file_system_at(charge["where"], file_systems),
    }


def _transfer(transfer: dict[str, Any]) -> Row:
    return {"kind": "transfer", "wall_s": transfer["wall_s"], "size_bytes": transfer["size_bytes"]}


def _what_if(change: dict[str, Any], wall_s: float) -> Row:
    # Of a bound nothing is promised but that it can be no less.
    is_promised = change.get("basis", "replayed") == "replayed"
    return {
        "kind": "what_if",
        "wall_s": wall_s,
        "change": change.get("id"),
        "sentence": change["change"],
        "basis": change.get("basis"),
        "predicted_wall_s": change["predicted_wall_s"],
        "saved_s": wall_s - change["predicted_wall_s"] if is_promised else 0.0,
        "how": change["how"],
        "gives_up": change.get("gives_up"),
    }


def file_system_at(place: str, file_systems: dict[str, str]) -> str | None:
    """The file system of the file that a place names: the longest path that is a word of it."""
    words = f" {place} "
    named = [path for path in file_systems if f" {path} " in words]
    return file_systems[max(named, key=len)] if named else None


def file_systems_of(objects: pa.Table) -> dict[str, str]:
    """The file system of each file, from the objects' attributes."""
    found = {}
    for name, attributes in _pairs(objects):
        if kind := dict(attributes or ()).get("filesystem"):
            found[name] = kind
    return found


def _pairs(objects: pa.Table) -> Iterable[tuple[str, list[tuple[str, str]] | None]]:
    names: list[Any] = objects["name"].to_pylist()
    return zip(names, objects["attributes"].to_pylist())
