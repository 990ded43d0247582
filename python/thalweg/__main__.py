"""`python3 -m thalweg ...`: the command, also where its folder is not in PATH. `fleet` is this package's own, and what the command runs for it."""

from __future__ import annotations

import os
import sys

from .command import ThalwegError, find


def main(words: list[str]) -> int:
    """Ask a fleet, or become the command."""
    try:
        if words[:1] == ["fleet"]:
            from .fleets.command_line import main as fleet

            return fleet(words[1:])
        program = find()
        os.execv(program, ["thalweg", *words])
    except ThalwegError as reason:
        print(f"thalweg: {reason}", file=sys.stderr)
        return 1
    except OSError as reason:
        print(f"thalweg: {program} cannot be run: {reason.strerror}", file=sys.stderr)
        return 126


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
