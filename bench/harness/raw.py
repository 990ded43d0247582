"""The raw stream of bench/raw: the ceiling of a copy, in every way it knows.

One run is one whole process that makes both ends, sends the file over loopback and ends; the files it wrote are removed
afterwards, untimed, as everybody's are. Which way a copy goes makes no difference to it.
"""

import json
import os
import subprocess

from bench.harness import subjects
from bench.harness.pairs import Subject
from testbed import files
from testbed.errors import NotRun
from testbed.hosts import LOOPBACK

PROGRAM = "thalweg-raw"
CONNECTIONS = [1, 2, 4]
UNIT_BYTES = [256 << 10, 1 << 20]
PART_BYTES = [128 << 10, 1 << 20]


def variants(bench, source, sync, checksums, apart=None):
    """One subject per way to stream the file, with or without CRC-32C at both ends; on the bench's files, or in the place `apart`."""
    program = os.path.join(bench.binaries, PROGRAM)
    if not os.access(program, os.X_OK):
        raise NotRun(f"not built: cargo build --release -p {PROGRAM}")
    listed = subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout.split()
    names = [name for name in listed if ("-crc" in name) == checksums]
    connections, units, parts = ([2], [1 << 20], [128 << 10]) if bench.quick else (CONNECTIONS, UNIT_BYTES, PART_BYTES)
    ways = [
        (name, count, unit, part)
        for name in names
        for count in connections
        for unit in units
        for part in parts
        if part <= unit and not (name == "sendfile-splice" and part != parts[0])
    ]
    return [_subject(apart or bench, apart.host if apart else LOOPBACK, program, source, sync, checksums, way) for way in ways]


def label(checksums):
    """How the page names it."""
    return "raw stream, CRC-32C at both ends" if checksums else "raw stream, bare"


def _subject(place, host, program, source, sync, checksums, way):
    name, connections, unit_bytes, part_bytes = way
    directory = place.path("raw", "files")
    os.makedirs(directory, exist_ok=True)
    flags = ["--keep", "--variant", name, "--connections", connections, "--unit", unit_bytes, "--part", part_bytes]
    flags += ["--sync"] if sync else []

    def remove(_run):
        for path in files.files_under(directory, at_least_bytes=0):
            os.unlink(path)

    return Subject(
        f"{'raw-crc' if checksums else 'raw-bare'}-{name}-{connections}x{unit_bytes >> 10}Ki-{part_bytes >> 10}Ki",
        label(checksums) + (", fdatasync" if sync else ""),
        command=lambda run: host.argv([program, *flags, source, directory]),
        before=lambda run: subjects.warm(source),
        after=remove,
        own=lambda text: json.loads(text.splitlines()[-1]),
    )
