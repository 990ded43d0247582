"""`python -m thalweg.fleets.worker`: jobs as lines of JSON on standard input, what came of each on standard output.

Ends when its input does, or when who started it is gone: one that went on would write what the next one explains again.
"""

import ctypes
import json
import os
import signal
import sys

from thalweg.command import ThalwegError
from thalweg.fleets.work import do_line


PR_SET_PDEATHSIG = 1


def main() -> None:
    """Answer each line."""
    # So that what is temporary goes, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    # Ctrl-C is for the process that started this; it closes our input.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # What else is printed here is no answer.
    answers, sys.stdout = os.fdopen(os.dup(1), "w"), sys.stderr
    for line in sys.stdin:
        try:
            answer = do_line(line)
        except (ThalwegError, OSError) as reason:
            answer = json.dumps({"failed": f"{reason}"})
        print(answer, file=answers, flush=True)
    # It is over: the process that drove this may be gone already.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


if __name__ == "__main__":
    main()
