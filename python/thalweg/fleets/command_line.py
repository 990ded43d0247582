"""`thalweg fleet ...`, which the command runs as `python3 -m thalweg fleet ...`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from ..command import ThalwegError
from . import TABLE, Fleet, Progress, fleet
from .engines import ENGINES
from .page import figure, heading
from .places import Place
from .questions import BUCKETS, DIMENSIONS

EPILOG = f"""\
WHERE is a directory or URL with recordings (NAME.thw, or packed: .tar, .tar.gz, .tar.xz), whose new ones are explained first, into WHERE/{TABLE};
or such a table. --by takes {", ".join(DIMENSIONS)}; `user` is user_name. --where takes SQL over the table's columns: docs/FLEET.md lists\nthem; of trend and since it chooses recordings, and --of charges.

  thalweg fleet top /data/recordings --by cause,host
  thalweg fleet trend /data/recordings --bucket week --where "program = 'cp'"
  thalweg fleet compare /data/recordings "host = 'a'" "host = 'b'"
  thalweg fleet page /data/recordings -o fleet.html"""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    plain = argparse.RawDescriptionHelpFormatter
    top = argparse.ArgumentParser(
        prog="thalweg fleet", description="Explain many recordings, and ask what cost most.", epilog=EPILOG, formatter_class=plain
    )
    verbs = top.add_subparsers(dest="verb", required=True, metavar="explain|top|trend|since|compare|gains|sql|errors|page")

    def verb(name: str, summary: str, limited: bool = True, by: str | None = "cause") -> argparse.ArgumentParser:
        made = verbs.add_parser(name, help=summary, description=summary, epilog=EPILOG, formatter_class=plain)
        made.add_argument("place", metavar="WHERE", help="recordings, or the table of a fleet")
        made.add_argument("--engine", choices=sorted(ENGINES), default="local", help="who explains: processes, Dask, Spark (default: local)")
        made.add_argument("--workers", type=int, metavar="N", help="how many at a time (default: one for each processor)")
        made.add_argument("--table", metavar="TABLE", help=f"where the table is (default: WHERE/{TABLE})")
        made.add_argument("--retry-errors", action="store_true", help="try again what could not be explained")
        if by is not None:
            made.add_argument("--by", default=by, metavar="COLUMN,...", help=f"what to group by (default: {by})")
        if limited:
            made.add_argument("--limit", type=int, default=20, metavar="N", help="at most so many rows (default: 20)")
        if name in ("trend", "since", "compare"):
            made.add_argument("--of", metavar="SQL", help="only charges like these: \"cause = 'network.loss'\"")
        if name not in ("explain", "page"):
            made.add_argument("--json", action="store_true", help="print the rows as JSON")
        return made

    verb("explain", "Explain what is new, and say how many", limited=False, by=None)
    verb("top", "Which cause cost most; --by cause,host: where; --by user: for whom").add_argument("--where", metavar="SQL")
    trend = verb("trend", "What a recording lost to each cause, over time", limited=False)
    trend.add_argument("--where", metavar="SQL")
    trend.add_argument("--bucket", choices=BUCKETS, default="day", help="(default: day)")
    verb("since", "Since when a cause costs more or less, and what that has come to").add_argument("--where", metavar="SQL")
    compare = verb("compare", "What differs between two sets of recordings, for each recording")
    compare.add_argument("one", metavar="ONE", help="a condition in SQL, like \"host = 'a'\"")
    compare.add_argument("other", metavar="OTHER", help="another")
    verb("gains", "Which change would save most", by="program,change").add_argument("--where", metavar="SQL")
    verb("sql", "Any question, in SQL over the table `fleet`", limited=False, by=None).add_argument("query", metavar="QUERY")
    verb("errors", "What could not be explained, and why", limited=False, by=None)
    verb("page", "All of it as a page of HTML", limited=False, by=None).add_argument("-o", "--output", required=True, metavar="FILE.html")
    return top


def main(words: list[str]) -> int:
    """Parse, do, print; the exit codes are those of `thalweg`."""
    asked = parser().parse_args(words)
    try:
        opened = _opened(asked)
        if asked.verb == "explain":
            print(_done(opened.progress) if opened.progress else f"{asked.place} is a table already")
        elif asked.verb == "page":
            Path(asked.output).write_text(opened.page(), encoding="utf-8")
        else:
            _show(_answer(opened, asked), asked.json)
        sys.stdout.flush()
    except ThalwegError as reason:
        print(f"thalweg fleet: {reason}", file=sys.stderr)
        return 1
    except OSError as reason:
        if isinstance(reason, BrokenPipeError):
            # Nobody reads any longer; nor is anything to be written at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            return 1
        print(f"thalweg fleet: {reason.filename or asked.place}: {reason.strerror or reason}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("thalweg fleet: interrupted; what is explained stays so, and the rest is done next time", file=sys.stderr)
        return 130
    return 0


def _opened(asked: argparse.Namespace) -> Fleet:
    from . import table as tables

    if tables.is_table(Place.of(asked.place)):
        return Fleet(asked.place)
    line = sys.stderr.isatty()

    def report(now: Progress) -> None:
        print(f"\r{_done(now)}", end="", file=sys.stderr, flush=True)

    opened = fleet(
        asked.place, asked.engine, table=asked.table, workers=asked.workers, retry_errors=asked.retry_errors, progress=report if line else None
    )
    if line:
        print(file=sys.stderr)
    elif asked.verb != "explain" and opened.progress and opened.progress.recordings:
        print(f"thalweg fleet: {_done(opened.progress)}", file=sys.stderr)
    return opened


def _done(now: Progress) -> str:
    errors = f", {now.errors:,} of them could not be" if now.errors else ""
    return f"{now.recordings:,} recordings explained{errors}; {now.done_before:,} of {now.sources:,} recordings and packs were done before"


def _answer(opened: Fleet, asked: argparse.Namespace) -> pa.Table:
    by = asked.by.split(",") if "by" in asked else []
    answers: dict[str, Callable[[], pa.Table]] = {
        "top": lambda: opened.top(by, asked.where, asked.limit),
        "trend": lambda: opened.trend(by, asked.bucket, asked.where, asked.of),
        "since": lambda: opened.since(by, asked.where, asked.of, asked.limit),
        "compare": lambda: opened.compare(asked.one, asked.other, by, asked.of, asked.limit),
        "gains": lambda: opened.gains(by, asked.where, asked.limit),
        "sql": lambda: opened.sql(asked.query),
        "errors": opened.errors,
    }
    return answers[asked.verb]()


def _show(rows: pa.Table, as_json: bool) -> None:
    if as_json:
        print(json.dumps(rows.to_pylist(), indent=2, default=str, ensure_ascii=False))
        return
    lines = [[figure(name, row[name]) for name in row] for row in rows.to_pylist()]
    heads = [heading(name) for name in rows.column_names]
    widths = [max(map(len, column)) for column in zip(heads, *lines)]
    is_number = [pa.types.is_floating(field.type) or pa.types.is_integer(field.type) for field in rows.schema]
    for line in [heads, *lines]:
        cells = (cell.rjust(width) if right else cell.ljust(width) for cell, width, right in zip(line, widths, is_number))
        print("  ".join(cells).rstrip())
