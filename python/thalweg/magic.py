"""`%%thalweg` in notebooks: a cell is recorded while it runs, and explained below its output, with the picture.

`%load_ext thalweg` makes it known.
"""

from __future__ import annotations

import argparse
import shlex
from typing import Any

from .command import ThalwegError
from .live import record


def arguments(line: str) -> argparse.Namespace:
    """What stands behind `%%thalweg`."""
    parser = argparse.ArgumentParser(prog="%%thalweg", exit_on_error=False, add_help=False)
    parser.add_argument("-o", "--output", metavar="NAME.thw", help="keep the recording")
    parser.add_argument("-v", "--verbose", action="store_true", help="print all that is known")
    parser.add_argument("--method", default="auto", help="which recorder: auto, bpf, proc")
    parser.add_argument("--no-picture", action="store_true", help="text alone")
    try:
        asked, unknown = parser.parse_known_args(shlex.split(line))
    except (argparse.ArgumentError, SystemExit) as reason:
        raise ThalwegError(f"{reason}; {parser.format_usage().strip()}") from None
    if unknown:
        raise ThalwegError(f"%%thalweg does not know {' '.join(unknown)}; {parser.format_usage().strip()}")
    return asked


def load(shell: Any) -> None:
    """Make the magic known to an IPython shell."""
    from IPython.core.error import UsageError
    from IPython.display import SVG, display

    def thalweg(line: str, cell: str) -> None:
        """Record this cell while it runs, and show where its time went. Flags: -o NAME.thw, -v, --method bpf|proc, --no-picture"""
        try:
            asked = arguments(line)
            with record(asked.output, method=asked.method) as run:
                shell.run_cell(cell)
            print(run.text(asked.verbose), end="")
            if not asked.no_picture:
                display(SVG(data=run.svg()))
        except ThalwegError as reason:
            raise UsageError(str(reason)) from None

    shell.register_magic_function(thalweg, "cell", "thalweg")
