"""A plan, run by `thalweg sweep` on a host; and the campaigns whose items are a plan each."""

import os
import re
import shutil
import signal
import subprocess

from testbed.campaign import Campaign
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


def keep(output, directory, name, endings=("json", "html", "runs.jsonl")):
    """Copy a sweep's files to where they stay."""
    os.makedirs(directory, exist_ok=True)
    for ending in endings:
        shutil.copy(f"{output}.{ending}", os.path.join(directory, f"{name}.{ending}"))


class Sweeps(Campaign):
    """A campaign whose items are plans in worlds of their own, each swept in some minutes."""

    flags = ("program", "relay")
    place = "/dev/shm"
    quick = "few runs of each point, to see whether it works; results go to target/NAME-quick"
    # Changes of a plan's text that make it quick.
    shorter = ((r"(?m)^repeat = \d+", "repeat = 2"),)

    def sweep(self, host, plan, output):
        """Sweep the plan in a file, which is shortened first where little time is wanted; the results' name."""
        if self.options.quick:
            with open(plan) as source:
                text = source.read()
            for pattern, words in self.shorter:
                text = re.sub(pattern, words, text)
            with open(plan, "w") as out:
                out.write(text)
        return sweep(host, self.program, plan, output)
