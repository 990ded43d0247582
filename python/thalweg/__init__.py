"""Why is this transfer slow, and what do I change? Thalweg's recordings as Arrow tables, its explanations as objects, and questions to many.

**In:** recordings (`NAME.thw`, also packed as `.tar`), commands, this very process. **Out:** Arrow tables, dataclasses, pictures, and one table of
a thousand recordings. **Never:** a cause or a rule of its own: every explanation is the `thalweg` command's.

::

    thalweg.open("run.thw").spans.to_pandas()
    thalweg.explain("run.thw").verdict.sentence
    with thalweg.record() as run: ...
    thalweg.fleet("/data/recordings").top(by=["cause", "host"])

Tables and fleets need pyarrow (`pip install "thalweg[tables]"`); it is imported when one of them is first asked for, and nothing else needs it.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from typing import TYPE_CHECKING, Any

from .command import CommandFailed, ThalwegError
from .explaining import explain, read
from .explanation import Explanation
from .live import record
from .needs import NotInstalled
from .recording import Recording

if TYPE_CHECKING:
    from .fleets import Fleet, fleet

__version__ = "0.1.0"
__all__ = ["CommandFailed", "Explanation", "NotInstalled", "Recording", "ThalwegError", "explain", "open", "read", "record"]
# (`import *` and `help()` ask for all that is named here.)
if importlib.util.find_spec("pyarrow"):
    __all__ += ["Fleet", "fleet"]


def open(path: str | os.PathLike[str], name: str | None = None) -> Recording:
    """Open a recording: a directory `NAME.thw`, or a `.tar` of one; of a tar that holds several, the one of this `name`."""
    recording = Recording(path, name)
    # What is no recording is said here, not at the first use.
    _ = recording.meta
    return recording


def __getattr__(name: str) -> Any:
    """What needs pyarrow, once it is asked for."""
    if name in ("Fleet", "fleet"):
        return getattr(importlib.import_module(".fleets", __name__), name)
    if name == "fleets":
        return importlib.import_module(".fleets", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def load_ipython_extension(shell: Any) -> None:
    """What `%load_ext thalweg` calls."""
    from .magic import load

    load(shell)
