"""pieces.py KIND ...: what comes in pieces.

    make N               N blocks of 64 KiB on standard output, the work before each (--burst B: before each B, which are written at once)
    eat                  reads standard input in blocks of 64 KiB, the work after each
    tree DIRECTORY N     N empty files, a hundred in a directory
"""

import argparse
import os
import sys

from work import Work, add_options

BLOCK_BYTES = 64 << 10
IN_A_DIRECTORY = 100


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=("eat", "make", "tree"))
    parser.add_argument("words", nargs="*")
    parser.add_argument("--burst", type=int, default=1)
    add_options(parser)
    options = parser.parse_args()
    if options.kind == "tree":
        return tree(options.words[0], int(options.words[1]))
    work = Work(options)
    if options.kind == "eat":
        while sys.stdin.buffer.read(BLOCK_BYTES):
            work()
        return
    for number in range(0, int(options.words[0]), options.burst):
        work()
        os.write(sys.stdout.fileno(), bytes([number % 256]) * BLOCK_BYTES * options.burst)


def tree(top, count):
    """Empty files in directories of a hundred, unless they are there; as root for whom the lab runs commands as."""
    if "THALWEG_LAB_USER" in os.environ:
        os.makedirs(top, exist_ok=True)
        os.chown(top, int(os.environ["THALWEG_LAB_USER"]), -1)
        os.seteuid(int(os.environ["THALWEG_LAB_USER"]))
    for number in range(count):
        parent = os.path.join(top, f"{number // IN_A_DIRECTORY:04}")
        os.makedirs(parent, exist_ok=True)
        with open(os.path.join(parent, f"{number:06}"), "w"):
            pass


if __name__ == "__main__":
    main()
