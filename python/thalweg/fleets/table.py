"""The table of a fleet: Parquet files `TABLE/day=YYYY-MM-DD/part-HASH.parquet`, of one schema, which DuckDB, Spark, Dask, Polars and pandas read.

A recording's rows are all in one file, and a file is there whole or not at all; so what is explained is what has a row of the kind `recording`, and
nothing else keeps count. `_fleet.json` says of which version the table is.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from ..command import ThalwegError
from .places import UNFINISHED, Place
from .rows import FILE_SCHEMA, Row
from .sources import Source

SCHEMA = "thalweg.fleet/1"
MARK = "_fleet.json"
LOCK = "_lock"
UNKNOWN_DAY = "__HIVE_DEFAULT_PARTITION__"
PARTITIONING = ds.partitioning(pa.schema([("day", pa.date32())]), flavor="hive")
ROWS_OF_A_GROUP = 50_000


def is_table(place: Place) -> bool:
    """Whether there is a table of a fleet."""
    return place.exists(MARK)


def begin(place: Place) -> None:
    """Have a table there: a new one where there is none."""
    if not is_table(place):
        if any(not info.base_name.endswith(UNFINISHED) for info in place.list()):
            raise ThalwegError(f"{place.base} is there and is no fleet's table (it has no {MARK}); give the table another place")
        place.write(MARK, (json.dumps({"schema": SCHEMA}) + "\n").encode())
    check(place)


def check(place: Place) -> None:
    """That the table is there, and of a version that is known."""
    try:
        schema = json.loads(place.read(MARK)).get("schema")
    except FileNotFoundError:
        raise ThalwegError(
            f"{place.base}: there is no fleet's table; thalweg.fleet(DIRECTORY) or `thalweg fleet explain DIRECTORY` makes one"
        ) from None
    except ValueError as reason:
        raise ThalwegError(f"{place.base}/{MARK}: {reason}; remove the table and explain again") from None
    if schema != SCHEMA:
        raise ThalwegError(f"{place.base}: schema {schema}, and this package knows {SCHEMA}; install a newer one, or explain into another table")


@contextmanager
def locked(place: Place) -> Iterator[None]:
    """One writer at a time, on a local file system, where what an earlier one left unfinished goes. Elsewhere nobody keeps two apart: what both explained
    stands twice until the next time, when it is taken out and explained again.
    """
    if not place.is_local:
        yield
        return
    with open(place.path(LOCK), "a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ThalwegError(f"{place.base}: another fleet is being explained into this table; wait until it is done") from None
        for file in _parts(place, UNFINISHED):
            place.files.delete_file(file)
        yield


def put(place: Place, rows: list[Row]) -> None:
    """Add the rows of some recordings: a file for each day. The same rows make the same file, so putting them twice adds them once."""
    by_day = defaultdict(list)
    for row in rows:
        started = row.get("started")
        by_day[started.date().isoformat() if started else UNKNOWN_DAY].append(row)
    for day, of_day in by_day.items():
        keys = sorted({(row["source"], row["source_version"], row["recording"]) for row in of_day})
        name = hashlib.sha256(json.dumps(keys).encode()).hexdigest()[:24]
        of_day.sort(key=lambda row: row["kind"])
        _write(place, f"day={day}/part-{name}.parquet", pa.Table.from_pylist(of_day, schema=FILE_SCHEMA))


def _write(place: Place, name: str, table: pa.Table) -> None:
    out = pa.BufferOutputStream()
    pq.write_table(table, out, compression="zstd", row_group_size=ROWS_OF_A_GROUP)
    place.write(name, out.getvalue())


def dataset(place: Place) -> ds.Dataset:
    """The whole table, with `day`."""
    check(place)
    files = _parts(place, ".parquet")
    schema = FILE_SCHEMA.append(pa.field("day", pa.date32()))
    return ds.dataset(files, schema=schema, format="parquet", filesystem=place.files, partitioning=PARTITIONING, partition_base_dir=place.base)


def _parts(place: Place, ending: str) -> list[str]:
    folders = [info for info in place.list() if info.base_name.startswith("day=")]
    files = [file for folder in folders for file in place.list(os.path.relpath(folder.path, place.base))]
    return [file.path for file in files if file.base_name.endswith(ending)]


@dataclass(frozen=True)
class Standing:
    """What the table has of a source."""

    version: str
    is_whole: bool
    errors: int

    def is_done(self, source: Source) -> bool:
        """Whether this version of it is in the table, all of it, and nothing else of it."""
        return self.is_whole and self.version == source.version


def standing(place: Place) -> dict[str, Standing]:
    """What there is, by source."""
    columns = ["source", "source_version", "source_recordings", "error"]
    found = dataset(place).to_table(columns=columns, filter=pc.field("kind") == "recording")
    asked: list[tuple[str, Literal["min", "max", "count"]]]
    asked = [("source_version", "min"), ("source_version", "max"), ("source_recordings", "max"), ("source", "count"), ("error", "count")]
    counted = found.group_by("source").aggregate(asked).to_pylist()
    return {row["source"]: Standing(row["source_version_max"], _is_whole(row), row["error_count"]) for row in counted}


def _is_whole(row: Row) -> bool:
    return bool(row["source_count"] == row["source_recordings_max"] and row["source_version_min"] == row["source_version_max"])


def take_out(place: Place, sources: set[str]) -> None:
    """Take out all rows of these sources: each file that has some is replaced by one without them."""
    if not sources:
        return
    gone = pa.array(sorted(sources))
    for file in _parts(place, ".parquet"):
        with place.files.open_input_file(file) as opened:
            table = pq.read_table(opened)
        kept = table.filter(pc.invert(pc.is_in(table["source"], gone)))
        name = os.path.relpath(file, place.base)
        if not len(kept):
            place.remove(name)
        elif len(kept) < len(table):
            _write(place, name, kept)
