"""A command that is run once, for what it leaves or to guess how long others will take."""

import subprocess
import time

from testbed import shell
from testbed.errors import Broken

TIMEOUT_S = 300


def timed(argv):
    """Run a command to its end; how long it took. `Broken` with its last words if it does not exit with 0."""
    begun = time.perf_counter()
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    except FileNotFoundError:
        raise Broken(f"{argv[0]}: there is no such command") from None
    except subprocess.TimeoutExpired:
        raise Broken(f"{' '.join(argv)}: still running after {TIMEOUT_S} s") from None
    if done.returncode != 0:
        raise Broken(f"{' '.join(argv)}: exit code {done.returncode}: {shell.last_line(done.stdout + done.stderr)}")
    return time.perf_counter() - begun
