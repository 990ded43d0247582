"""Many recordings, explained once each into one table, and questions to it.

**In:** a directory or URL with recordings. **Out:** a partitioned Parquet table (`table.py`), and answers in SQL (`questions.py`). **Never:** a
scheduler, a database: the jobs are done by processes, Dask or Spark, the questions by DuckDB or Spark.
"""

from __future__ import annotations

import math
import os
import posixpath
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..command import ThalwegError, find
from ..needs import need

# Before all that imports it.
need("pyarrow", "tables")

import pyarrow as pa  # noqa: E402

from . import sources, work  # noqa: E402
from . import table as tables  # noqa: E402
from .engines import ENGINES  # noqa: E402
from .places import Place  # noqa: E402
from .questions import Questions  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

# Where the table is, below the directory of recordings, if nothing else is said.
TABLE = "fleet.parquet"
# Recordings of one job: at most so many, so that a killed one costs half a minute (each makes a file a day, and a question opens them all); at least four
# jobs for each worker, so that none waits long.
MOST_OF_A_JOB = 1000
JOBS_OF_A_WORKER = 4
TIMEOUT_S = 600.0


@dataclass(frozen=True)
class Progress:
    """What has been done of what there is to do."""

    sources: int
    """Directories and packs that were found."""
    done_before: int
    """Those of them that were in the table already."""
    recordings: int = 0
    """How many recordings were explained now."""
    errors: int = 0
    """How many of them could not be; each is a row with its error."""


class Fleet(Questions):
    """The table of a fleet, and questions to it."""

    def __init__(self, where: str | os.PathLike[str], progress: Progress | None = None) -> None:
        self.table = os.fspath(where)
        self.progress = progress
        self._place = Place.of(where)
        tables.check(self._place)

    def __repr__(self) -> str:
        return f"Fleet({self.table!r})"

    def dataset(self) -> Any:
        """The table as a `pyarrow.dataset.Dataset`: `.to_table(filter=...)`, `polars.scan_pyarrow_dataset(...)`."""
        return tables.dataset(self._place)

    def arrow(self, kind: str | None = None) -> pa.Table:
        """All rows, or those of one kind: `recording`, `charge`, `transfer`, `what_if`."""
        import pyarrow.compute as pc

        table: pa.Table = self.dataset().to_table(filter=None if kind is None else pc.field("kind") == kind)
        return table


def fleet(
    where: str | os.PathLike[str],
    engine: str = "local",
    *,
    table: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    retry_errors: bool = False,
    timeout_s: float = TIMEOUT_S,
    progress: Callable[[Progress], None] | None = None,
) -> Fleet:
    """Explain the recordings below a directory or URL, those that are not in the table yet, and open the table.

    `engine` is `local` (processes), `dask` or `spark`. `table` is where the table is (default: `fleet.parquet` in the directory). A recording
    that cannot be explained is a row with its `error`; `retry_errors` tries those again. Interrupted, it goes on where it was when called again.
    """
    root, into = _text(where), _text(table) if table is not None else posixpath.join(_text(where), TABLE)
    if engine not in ENGINES:
        raise ThalwegError(f"no engine `{engine}`: there are {', '.join(ENGINES)}")
    place = Place.of(root)
    if not place.exists():
        raise ThalwegError(f"{root}: there is no such directory")
    if tables.is_table(place):
        raise ThalwegError(f"{root} is a fleet's table, and no directory of recordings; thalweg.fleets.Fleet opens it")
    return Fleet(into, _explain_into(root, into, engine, workers or len(os.sched_getaffinity(0)), retry_errors, timeout_s, progress or _silent))


def _explain_into(
    root: str, into: str, engine: str, workers: int, retry_errors: bool, timeout_s: float, report: Callable[[Progress], None]
) -> Progress:
    place = Place.of(into)
    tables.begin(place)
    with tables.locked(place):
        found = sources.find(Place.of(root), place.base)
        standing = tables.standing(place)
        left = [one for one in found if not _is_done(one, standing, retry_errors)]
        # First out, then in again: who is killed in between explains these once more, and nothing is there twice.
        tables.take_out(place, {one.path for one in left if one.path in standing})
        now = Progress(len(found), len(found) - len(left))
        report(now)
        if not left:
            return now
        program = os.environ.get("THALWEG") or (find() if engine == "local" else None)
        for counts in ENGINES[engine](list(_jobs(left, workers, root, into, program, timeout_s)), workers):
            now = Progress(now.sources, now.done_before, now.recordings + counts["recordings"], now.errors + counts["errors"])
            report(now)
    return now


def _is_done(source: sources.Source, standing: dict[str, tables.Standing], retry_errors: bool) -> bool:
    there = standing.get(source.path)
    return there is not None and there.is_done(source) and not (retry_errors and there.errors)


def _jobs(left: list[sources.Source], workers: int, root: str, into: str, program: str | None, timeout_s: float) -> Iterator[work.Job]:
    # Those of one time together: a job then has few days, and the table few files.
    left = sorted(left, key=lambda one: (one.written_ns, one.path))
    size = max(1, min(MOST_OF_A_JOB, math.ceil(len(left) / (workers * JOBS_OF_A_WORKER))))
    for first in range(0, len(left), size):
        yield work.job_of(root, into, left[first : first + size], program, timeout_s)


def _silent(_: Progress) -> None:
    """Nobody wants to know."""


def _text(where: str | os.PathLike[str]) -> str:
    text = os.fspath(where)
    return text if "://" in text else os.path.abspath(text)
