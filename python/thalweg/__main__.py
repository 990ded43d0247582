"""`python3 -m thalweg fleet ...`: what the command `thalweg fleet` runs."""

import sys


def main() -> int:
    """Hand the words on."""
    if sys.argv[1:2] != ["fleet"]:
        print("usage: python3 -m thalweg fleet ...; everything else is the command `thalweg`", file=sys.stderr)
        return 2
    from .fleets.command_line import main as fleet

    return fleet(sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
