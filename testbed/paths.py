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


def build(program):
    """Which sources and which program: the revision, and the SHA-256 of the command itself."""
    argv = ["git", "-C", REPOSITORY, "describe", "--always", "--dirty", "--exclude=*"]
    revision = subprocess.run(argv, capture_output=True, text=True, check=False).stdout.strip() or "unknown"
    return {"revision": revision, "thalweg_sha256": _digest(program)}


def _digest(path):
    if not os.path.exists(path):
        return None
    with open(path, "rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()
