"""mdBook: which version, where it is, and how it is installed and run."""

import os
import shutil
import subprocess

from tools.site import staging
from tools.site.errors import Broken

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TARGET = os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))
SITE, STAGED, TOOLS = (os.path.join(TARGET, name) for name in ("site", "site-staged", "tools"))
# Its theme and its settings change between versions, so one version is pinned.
VERSION = "0.5.4"
# Of its features only the search: not the server, nor what watches for changes.
INSTALL = ["install", "mdbook", "--locked", "--version", f"={VERSION}", "--no-default-features", "--features", "search", "--root", TOOLS]
ABSENT = f"mdBook {VERSION} is not installed: `make site` installs it once, in target/tools (about five minutes on two processors)"
# Bound: all pages take a second or two.
BUILD_S = 120


def find():
    """The program of the pinned version, in target/tools or in PATH; None without it."""
    for program in (os.path.join(TOOLS, "bin", "mdbook"), shutil.which("mdbook")):
        if program and os.access(program, os.X_OK):
            said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout.split()
            if said[-1:] and said[-1].lstrip("v") == VERSION:
                return program
    return None


def install():
    """Builds it from crates.io, unless it is there; returns the program."""
    if not find():
        print(f"site: installing mdBook {VERSION} in {os.path.relpath(TOOLS)}, once", flush=True)
        if subprocess.run([os.path.join(ROOT, "tools", "cargo"), *INSTALL], cwd=ROOT, check=False).returncode:
            raise Broken(f"mdBook {VERSION} could not be built (cargo's message is above); a program of that version in PATH is used too")
    return find()


def build(program, site, staged, output):
    """Lays the site out in `staged` and has it built in `output`; returns how many pages."""
    count = staging.stage(site, staged)
    told = {"MDBOOK_OUTPUT__HTML__GIT_REPOSITORY_URL": site.repository} if site.repository else {}
    words = [program, "build", "--dest-dir", os.path.abspath(output), staged]
    done = subprocess.run(words, env={**os.environ, **told}, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=BUILD_S)
    warned = [line for line in done.stderr.splitlines() if line.lstrip().startswith(("WARN", "ERROR"))]
    if done.returncode or warned:
        raise Broken(f"mdBook could not build {os.path.relpath(staged)}:\n" + ("\n".join(warned) or done.stderr.strip()))
    return count
