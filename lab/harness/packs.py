"""Recordings in git: a `tar.xz` for each group of scenarios (the first word of their names), so that recording one anew changes a small file.

The same recordings make the same bytes: names are sorted, and times, owners and modes are left out.
"""

import io
import lzma
import os
import tarfile

from testbed.errors import Broken

ENDING = ".tar.xz"
# What all packs may have together.
MOST_BYTES = 13 << 20


def group(name):
    """The pack that a scenario's recording is in."""
    return name.partition("-")[0]


def pack(recordings, names):
    """The bytes of a pack of these recordings."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.GNU_FORMAT) as out:
        for name in sorted(names):
            for parent, folders, files in os.walk(os.path.join(recordings, name)):
                folders.sort()
                for file in sorted(files):
                    path = os.path.join(parent, file)
                    entry = tarfile.TarInfo(os.path.relpath(path, recordings))
                    entry.size = os.path.getsize(path)
                    with open(path, "rb") as source:
                        out.addfile(entry, source)
    return lzma.compress(plain.getvalue(), preset=9 | lzma.PRESET_EXTREME)


def write(directory, recordings, names):
    """Have exactly these recordings packed in a directory; how many bytes they have. Nothing is written when they have too many."""
    groups = {}
    for name in names:
        groups.setdefault(group(name), []).append(name)
    packed = {f"{key}{ENDING}": pack(recordings, members) for key, members in groups.items()}
    total = sum(map(len, packed.values()))
    if total > MOST_BYTES:
        raise Broken(f"{len(names)} recordings have {total / 2**20:.1f} MiB packed; at most {MOST_BYTES >> 20} are to be in git")
    os.makedirs(directory, exist_ok=True)
    for file, data in packed.items():
        _replace(os.path.join(directory, file), data)
    for file in set(_there(directory)) - set(packed):
        os.unlink(os.path.join(directory, file))
    return total


def unpack(directory, into, names=None):
    """Unpack the recordings of these names, or all, into a directory."""
    groups = None if names is None else {group(name) for name in names}
    for file in _there(directory):
        if groups is None or file.removesuffix(ENDING) in groups:
            unpack_file(os.path.join(directory, file), into)


def unpack_file(path, into):
    """Unpack one pack into a directory."""
    with tarfile.open(path) as source:
        _extract(source, into)


def names(directory):
    """Which recordings are packed."""
    found = set()
    for file in _there(directory):
        with tarfile.open(os.path.join(directory, file)) as source:
            found |= {entry.name.partition("/")[0] for entry in source}
    return sorted(found)


def size(directory):
    """How many bytes the packs have."""
    return sum(os.path.getsize(os.path.join(directory, file)) for file in _there(directory))


def _there(directory):
    return sorted(file for file in os.listdir(directory) if file.endswith(ENDING)) if os.path.isdir(directory) else []


def _extract(source, into):
    # Older releases of Python have no filters; packs come from git, as the code does.
    if hasattr(tarfile, "data_filter"):
        source.extractall(into, filter="data")
    else:
        source.extractall(into)


def _replace(path, data):
    if os.path.exists(path):
        with open(path, "rb") as source:
            if source.read() == data:
                return
    with open(f"{path}.partial", "wb") as out:
        out.write(data)
    os.replace(f"{path}.partial", path)
