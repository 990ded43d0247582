"""Programs of gates/workers that run at once against one file system, as processes of their own."""

import os
import subprocess
import sys

from gates.harness.programs import environment
from testbed.errors import Broken
from testbed.processes import Process

WAIT_S = 300


def start(argv, log, **popen):
    """Start one: a path and its arguments."""
    return Process([sys.executable, *argv], log, env=environment(), **popen)


def run(fixture, argvs):
    """Run them at once; `Broken` if one fails or is not done within `WAIT_S`."""
    started = [start(argv, os.path.join(fixture.scratch, f"worker-{number}.log")) for number, argv in enumerate(argvs)]
    try:
        for worker, argv in zip(started, argvs, strict=True):
            what = " ".join([os.path.basename(argv[0]), *argv[1:]])
            try:
                code = worker.process.wait(WAIT_S)
            except subprocess.TimeoutExpired:
                raise Broken(f"{what}: not done after {WAIT_S} s") from None
            if code != 0:
                raise Broken(f"{what}: exit code {code}: {worker.last_line()}")
    finally:
        for worker in started:
            worker.kill(fixture.filesystem.give_up)
