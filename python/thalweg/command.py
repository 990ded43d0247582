"""The `thalweg` command: where it is, how it is run, and how its errors become ours."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence

# Names the command where it is not the one in PATH.
VARIABLE = "THALWEG"


class ThalwegError(Exception):
    """Something was not done; the message names the thing, what was expected, and what to do."""


class CommandFailed(ThalwegError):
    """The command was run and failed; the message is the last thing it said."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def find() -> str:
    """The path of the command: what `THALWEG` names, else `thalweg` in PATH."""
    named = os.environ.get(VARIABLE)
    if named:
        found = shutil.which(named)
        if not found:
            raise ThalwegError(f"{VARIABLE}={named} is no program; let it name the thalweg command")
        return found
    found = shutil.which("thalweg")
    if not found:
        raise ThalwegError(
            f"the thalweg command is not in PATH; build it (tools/build --release) and add its folder to PATH, or let {VARIABLE} name it"
        )
    return found


def run(arguments: Sequence[str | os.PathLike[str]], timeout_s: float | None = None, program: str | None = None) -> bytes:
    """Run the command and return its standard output; `CommandFailed` with what it said where it fails."""
    argv = [program or find(), *(os.fspath(word) for word in arguments)]
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        raise CommandFailed(f"thalweg {argv[1]} was not done within {timeout_s:g} s", 124) from None
    except OSError as reason:
        raise ThalwegError(f"{argv[0]} cannot be run: {reason.strerror}") from None
    if done.returncode:
        raise CommandFailed(said(done.stderr.decode(errors="replace"), done.returncode, argv[1]), done.returncode)
    return done.stdout


def said(stderr: str, exit_code: int, verb: str) -> str:
    """The last line that the command wrote, or how it ended where it wrote nothing."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    if lines:
        return lines[-1].removeprefix(f"thalweg {verb}: ")
    how = f"was killed by signal {-exit_code}" if exit_code < 0 else f"ended with exit code {exit_code}"
    return f"thalweg {verb} {how} and said nothing"
