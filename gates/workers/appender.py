"""appender FILE NUMBER COUNT LENGTH: append so many records of that length, one write each, with O_APPEND.

A record is `NUMBER:STEP:` and a letter repeated to the end of its line.
"""

import os
import sys


def main(path, number, count, length):
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    for step in range(count):
        record = f"{number}:{step}:".encode()
        record += bytes([97 + number % 26]) * (length - len(record) - 1) + b"\n"
        done = os.write(descriptor, record)
        if done != len(record):
            print(f"a write of {len(record)} bytes wrote {done}", file=sys.stderr)
            return 1
    os.close(descriptor)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], *(int(word) for word in sys.argv[2:5])))
