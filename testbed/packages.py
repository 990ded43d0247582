"""Debian packages of the programs that are run beside ours."""

import glob
import os
import shutil
import subprocess

from testbed import shell
from testbed.errors import NotRun


def missing(packages):
    """Those that are not installed."""
    return sorted(package for package, proof in packages.items() if not _is_there(proof))


def install(packages):
    """Make sure that packages are there, with apt-get when we are root; `NotRun` says what is missing.

    `packages` maps a package to what proves its presence: a command's name, or a path pattern.
    """

    wanted = missing(packages)
    if not wanted:
        return
    listed = " ".join(wanted)
    if os.geteuid() != 0:
        raise NotRun(f"not installed, and only root can install it: apt-get install {listed}")
    if shutil.which("apt-get") is None:
        raise NotRun(f"not installed, and this machine has no apt-get: {listed}")
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *wanted]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        subprocess.run(["apt-get", "update", "-qq"], env=environment, capture_output=True, check=False)
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if missing(packages):
        raise NotRun(f"apt-get install {listed} did not provide {' '.join(missing(packages))}: {shell.last_line(done.stderr)}")


def _is_there(proof):
    return bool(glob.glob(proof)) if "/" in proof else shutil.which(proof) is not None
