"""What is installed only if it is asked for, as an extra: pyarrow for tables, and what questions and engines run on."""

from __future__ import annotations

import importlib
from typing import Any

from .command import ThalwegError


class NotInstalled(ThalwegError, ImportError):
    """A package is not installed; the message has the command that installs it."""


def need(module: str, extra: str) -> Any:
    """The module, imported; `NotInstalled` names the extra that brings it."""
    package = module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as reason:
        # Any other is missing within what is there: that package's own words say more.
        if (reason.name or "").partition(".")[0] != package:
            raise
        raise NotInstalled(f'{package} is not installed: pip install "thalweg[{extra}]"') from None
