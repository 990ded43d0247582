"""The small programs of `bench/loops`."""

import os
import subprocess

from testbed import shell
from testbed.errors import NotRun

LOOPS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "loops")


def compiled(bench, name):
    """One that is written in C."""
    program = bench.path("loops", name)
    done = subprocess.run(
        ["cc", "-O2", "-o", program, os.path.join(LOOPS, name + ".c"), "-lpthread"], capture_output=True, check=False, text=True
    )
    if done.returncode != 0:
        raise NotRun(f"cc: {shell.last_line(done.stderr)}")
    return program
