"""The raw stream of bench/raw: the ceiling of a copy, in every way it knows.

One run is one whole process that makes both ends, sends the file over loopback and ends.
"""

import os

from servers.process import Unavailable

PROGRAM = "thalweg-raw"


def variants(bench, source, sync, checksums):
    """One subject per way to stream the file, with or without CRC-32C at both ends."""
    program = os.path.join(bench.binaries, PROGRAM)
    if not os.access(program, os.X_OK):
        raise Unavailable(f"not built: cargo build --release -p {PROGRAM}")
    raise NotImplementedError


def label(checksums):
    """How the page names it."""
    return "raw stream, CRC-32C at both ends" if checksums else "raw stream, bare"
