"""The programs of crates.io that the gates run: from PATH, or built by `cargo install` into a directory that is kept.

What cannot be had is a reason not to run a gate, never a failure.
"""

import os
import shutil
import subprocess

from testbed import shell
from testbed.errors import NotRun

# Less than the gate itself may take.
INSTALL_TIMEOUT_S = 300
VERSIONS = {"fsx": "0.3.2", "pjdfstest": "0.2.2"}


def environment(changes=None):
    """What programs are run with: messages in English, since they are read."""
    return dict(os.environ, LC_ALL="C", **(changes or {}))


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
    variables = {key: value for key, value in os.environ.items() if key not in ("CARGO_TARGET_DIR", "RUSTFLAGS")}
    # They wait for the file system: compiling them well takes longer than they run.
    variables["CARGO_PROFILE_RELEASE_OPT_LEVEL"] = "0"
    try:
        done = subprocess.run(argv, cwd=cache, env=variables, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise NotRun(f"cargo install {name}: not done after {INSTALL_TIMEOUT_S} s") from None
    if done.returncode != 0:
        raise NotRun(f"cargo install {name} {VERSIONS[name]}: {shell.last_line(done.stderr)}")
    return os.path.join(cache, "bin", name)
