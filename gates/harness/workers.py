"""Python programs that run at once against one store, as processes of their own."""

import os
import subprocess
import sys

from gatehouse import shell
from gatehouse.case import Wrong

WAIT_S = 300


def run(visit, argvs):
    """Run programs (each a path and its arguments) at once; `Wrong` if one fails or is not done within `WAIT_S`."""
    logs = [os.path.join(visit.scratch, f"worker-{number}.log") for number in range(len(argvs))]
    started = [shell.start([sys.executable, *argv], log) for argv, log in zip(argvs, logs)]
    try:
        for process, argv, log in zip(started, argvs, logs):
            what = " ".join([os.path.basename(argv[0]), *argv[1:]])
            try:
                code = process.wait(WAIT_S)
            except subprocess.TimeoutExpired:
                raise Wrong(f"{what}: not done after {WAIT_S} s") from None
            if code != 0:
                with open(log, errors="replace") as source:
                    raise Wrong(f"{what}: exit code {code}: {(source.read().strip().splitlines() or ['no message'])[-1]}")
    finally:
        for process in started:
            shell.end(process, visit.place.give_up)
