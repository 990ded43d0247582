"""A plan, run by `thalweg sweep` on a host."""

import os
import signal
import subprocess

from testbed.errors import Broken, NotRun

# Longer than a plan of ours may take.
MOST_S = 25 * 60


def sweep(host, program, plan, output, limit_s=MOST_S):
    """Run it; its results are `output` with endings. `Broken` when it fails or takes too long; it ends its server and what it runs in order."""
    if not os.access(program, os.X_OK):
        raise NotRun(f"{program} is not built: tools/build --release")
    running = subprocess.Popen(host.argv([program, "sweep", "-o", output, plan]), start_new_session=True)
    try:
        code = running.wait(limit_s)
    except subprocess.TimeoutExpired:
        raise Broken(f"not done within {limit_s / 60:.0f} minutes") from None
    finally:
        if running.poll() is None:
            running.send_signal(signal.SIGINT)
            running.wait()
    if code != 0:
        raise Broken(f"thalweg sweep: exit code {code}")
    return output
