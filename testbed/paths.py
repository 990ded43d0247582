"""Where things are in a checkout, and which build is looked at."""

import hashlib
import os
import subprocess

REPOSITORY = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TARGET = os.environ.get("CARGO_TARGET_DIR", os.path.join(REPOSITORY, "target"))
RELEASE = os.path.join(TARGET, "release")
THALWEG = os.path.join(RELEASE, "thalweg")
RELAY = os.path.join(RELEASE, "thalweg-relay")
# What `make -C lab` builds: the lab's programs, the slow disk, the NFS client.
PROGRAMS = os.path.join(TARGET, "lab")
SOURCES = ["crates", "Cargo.toml", "Cargo.lock", "rust-toolchain.toml"]


def build(program):
    """Which sources and which program: the revision, and the SHA-256 of the command itself."""
    return {"revision": revision(REPOSITORY), "thalweg_sha256": _digest(program)}


def revision(repository):
    """The last one that changed what programs are made of: results and pages are committed while they are measured."""
    git = lambda *words: subprocess.run(["git", "-C", repository, *words, "--", *SOURCES], capture_output=True, text=True, check=False).stdout.strip()  # noqa: E731
    changed = git("log", "-1", "--format=%h", "--abbrev=8") or "unknown"
    return changed + ("-dirty" if git("status", "--porcelain") else "")


def _digest(path):
    if not os.path.exists(path):
        return None
    with open(path, "rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()
