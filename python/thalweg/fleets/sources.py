"""Which recordings there are: directories `NAME.thw`, and packs (`.tar`, `.tar.gz`, `.tar.xz`) of one or more, at any depth."""

from __future__ import annotations

import os
import posixpath
from dataclasses import dataclass

from pyarrow import fs

from ..recording import META, PACKED
from .places import Place

ENDING = ".thw"


@dataclass(frozen=True, order=True)
class Source:
    """One directory or pack. `version` changes when it is recorded or packed again, and when one under way is finished."""

    path: str
    version: str

    @property
    def written_ns(self) -> int:
        """When it was written, by its file system; 0 where that does not say."""
        return int(self.version.rpartition("-")[2]) if "-" in self.version else 0

    @property
    def is_packed(self) -> bool:
        return self.path.endswith(PACKED)


def find(place: Place, leave_out: str) -> list[Source]:
    """All of them, in the order of their paths below `place`; the table of the fleet itself, at `leave_out`, holds none."""
    packs, directories, folders, seen = [], [], [place.base], set()
    while folders:
        folder = folders.pop()
        # A link may lead back to where it is.
        real = os.path.realpath(folder) if place.is_local else folder
        if real in seen:
            continue
        seen.add(real)
        for info in place.files.get_file_info(fs.FileSelector(folder)):
            if info.type == fs.FileType.Directory and info.base_name.endswith(ENDING):
                directories.append(info)
            elif info.type == fs.FileType.Directory and info.path.rstrip("/") != leave_out and not info.base_name.startswith("."):
                folders.append(info.path)
            elif info.type == fs.FileType.File and info.base_name.endswith(PACKED):
                packs.append(info)
    metas = place.files.get_file_info([posixpath.join(info.path, META) for info in directories]) if directories else []
    found = [(info.path, _version(info)) for info in packs]
    found += [(info.path, _version(meta)) for info, meta in zip(directories, metas)]
    return sorted(Source(posixpath.relpath(path, place.base), version) for path, version in found)


def _version(info: fs.FileInfo) -> str:
    if info.type != fs.FileType.File:
        return "none"
    return f"{info.size}-{info.mtime_ns or 0}"
