"""The programs the gates run: from PATH, from Debian, or built by `cargo install` into a directory that is kept.

What cannot be had is a reason not to run a gate, never a failure.
"""

import os
import shutil
import subprocess

from gatehouse.case import NotRun
from servers.process import Unavailable, install

INSTALL_TIMEOUT_S = 900
VERSIONS = {"fsx": "0.3.2", "pjdfstest": "0.2.2"}


def from_debian(packages):
    """Make sure of Debian packages; `packages` maps each to what proves that it is there."""
    try:
        install(packages)
    except Unavailable as why:
        raise NotRun(str(why)) from None


def from_crates(name, cache):
    """Path of a program of crates.io, built once into `cache`."""
    found = shutil.which(name) or shutil.which(name, path=os.path.join(cache, "bin"))
    if found:
        return found
    if shutil.which("cargo") is None:
        raise NotRun(f"{name} is not installed, and there is no cargo to build it")
    os.makedirs(cache, exist_ok=True)
    argv = ["cargo", "install", "--quiet", "--locked", "--root", cache, "--version", VERSIONS[name], name]
    # From a directory without a toolchain file: any cargo that is installed will do.
    environment = {key: value for key, value in os.environ.items() if key not in ("CARGO_TARGET_DIR", "RUSTFLAGS")}
    try:
        done = subprocess.run(argv, cwd=cache, env=environment, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise NotRun(f"cargo install {name}: not done after {INSTALL_TIMEOUT_S} s") from None
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise NotRun(f"cargo install {name} {VERSIONS[name]}: {last.strip()}")
    return os.path.join(cache, "bin", name)
