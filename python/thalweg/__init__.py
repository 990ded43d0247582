"""Why is this transfer slow, and what do I change? Thalweg's recordings as Arrow tables, its explanations as objects, and questions to many.

**In:** recordings (`NAME.thw`, also packed as `.tar`), commands, this very process. **Out:** Arrow tables, dataclasses, pictures, and one table of
a thousand recordings. **Never:** a cause or a rule of its own: every explanation is the `thalweg` command's.

::

    thalweg.open("run.thw").spans.to_pandas()
    thalweg.explain("run.thw").verdict.sentence
    with thalweg.record() as run: ...
    thalweg.fleet("/data/recordings").top(by=["cause", "host"])
"""

from __future__ import annotations

import os
from typing import Any

from .command import CommandFailed, ThalwegError
from .explaining import explain, read
from .explanation import Explanation
from .fleets import Fleet, fleet
from .live import record
from .recording import Recording

__version__ = "0.1.0"
__all__ = ["CommandFailed", "Explanation", "Fleet", "Recording", "ThalwegError", "explain", "fleet", "open", "read", "record"]


def open(path: str | os.PathLike[str], name: str | None = None) -> Recording:
    """Open a recording: a directory `NAME.thw`, or a `.tar` of one; of a tar that holds several, the one of this `name`."""
    recording = Recording(path, name)
    # What is no recording is said here, not at the first use.
    _ = recording.meta
    return recording


def load_ipython_extension(shell: Any) -> None:
    """What `%load_ext thalweg` calls."""
    from .magic import load

    load(shell)
