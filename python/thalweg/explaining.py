"""Explanations of recordings and commands, as `thalweg explain --json` gives them."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Union

from . import command
from .command import CommandFailed, ThalwegError
from .decode import decode
from .explanation import SCHEMA, Explanation
from .recording import Recording

Path_ = Union[str, "os.PathLike[str]"]


def explain(
    what: Path_ | Recording | Sequence[str], *more: Path_ | Recording, options: Sequence[str] = (), timeout_s: float | None = None
) -> Explanation:
    """Where the time went.

    `explain("run.thw")` explains a recording, `explain("client.thw", "server.thw")` merges several, the client's first. A list of words
    is a command, which is run, recorded and explained: `explain(["cp", "big", "/mnt/nfs/big"])`; it keeps its own output.

    `options` are flags of `thalweg explain`, such as `["--why"]`, `["--phase", "steady"]`, `["-n", "5"]`.
    """
    if isinstance(what, (str, os.PathLike, Recording)):
        recordings = [one if isinstance(one, Recording) else Recording(one) for one in (what, *more)]
        with ExitStack() as unpacked:
            directories = [unpacked.enter_context(one.files.directory()) for one in recordings]
            return read(command.run(["explain", "--json", *options, *directories], timeout_s), str(recordings[0].path))
    if more:
        raise ThalwegError("a command is explained by itself: give recordings, or one list of words")
    return _of_command(list(what), options, timeout_s)


def read(text: str | bytes, where: str = "the explanation") -> Explanation:
    """An explanation from JSON, of another version of the command too where its schema has the same number."""
    return decode(Explanation, document(text, where))


def document(text: str | bytes, where: str) -> dict[str, Any]:
    """The JSON of an explanation, as it is; its schema is the one that this package knows."""
    try:
        said = json.loads(text)
    except ValueError as reason:
        raise ThalwegError(f"{where}: no JSON: {reason}") from None
    schema = said.get("schema") if isinstance(said, dict) else None
    if schema != SCHEMA:
        raise ThalwegError(f"{where}: schema {schema}, and this package knows {SCHEMA}; install the package and the command of one version")
    return dict(said)


def _of_command(words: list[str], options: Sequence[str], timeout_s: float | None) -> Explanation:
    """Run, record and explain a command. It may fail: what it did until then is explained (`summary.ended` says how it ended)."""
    if not words:
        raise ThalwegError("nothing to explain: give a recording, or a command as a list of words")
    with tempfile.TemporaryDirectory(prefix="thalweg-") as scratch:
        out = Path(scratch) / "explanation.json"
        argv = [command.find(), "explain", "--json", "--to", str(out), *options, "--", *words]
        try:
            done = subprocess.run(argv, stderr=subprocess.PIPE, timeout=timeout_s, check=False)
        except subprocess.TimeoutExpired:
            raise CommandFailed(f"`{' '.join(words)}` was not done within {timeout_s:g} s", 124) from None
        # It is there from the beginning, and empty until there is an explanation.
        if not out.exists() or not out.stat().st_size:
            raise CommandFailed(command.said(done.stderr.decode(errors="replace"), done.returncode, "explain"), done.returncode)
        return read(out.read_bytes(), " ".join(words))
