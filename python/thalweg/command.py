"""The `thalweg` command: where it is, how it is run, and how its errors become ours."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from collections.abc import Sequence
from pathlib import Path

NAME = "thalweg"
# Names another command than the one that was installed with this package, or is in PATH.
VARIABLE = "THALWEG"
SITES = ("site-packages", "dist-packages")


class ThalwegError(Exception):
    """Something was not done; the message names the thing, what was expected, and what to do."""


class CommandFailed(ThalwegError):
    """The command was run and failed; the message is the last thing it said."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def find() -> str:
    """The path of the command: what `THALWEG` names, else the one that was installed with this package, else `thalweg` in PATH."""
    named = os.environ.get(VARIABLE)
    if named:
        found = shutil.which(named)
        if not found:
            raise ThalwegError(f"{VARIABLE}={named} is no program; let it name the thalweg command")
        return found
    folders = _beside(Path(__file__).resolve().parents[1])
    found = shutil.which(NAME, path=os.pathsep.join(map(str, folders))) or shutil.which(NAME)
    if not found:
        raise ThalwegError(
            f"there is no thalweg command beside this package ({', '.join(map(str, folders))}), nor in PATH; pip install thalweg brings it, "
            f"tools/build --release makes it in the source tree, and {VARIABLE} names one that is elsewhere"
        )
    return found


def _beside(site: Path) -> list[Path]:
    """Where installers put the command of a package in `site`: pip --target, then an environment or prefix or pip --user, then this interpreter."""
    folders = [site / "bin"]
    if site.name in SITES and len(site.parents) > 2:
        # PREFIX/lib/python3.11/site-packages; Debian's own is PREFIX/lib/python3/dist-packages.
        folders.append(site.parents[2] / "bin")
    return [*dict.fromkeys([*folders, Path(sysconfig.get_path("scripts"))])]


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
