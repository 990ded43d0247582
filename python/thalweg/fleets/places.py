"""Directories and URLs alike: where recordings and the table are. `pyarrow.fs` knows file, s3, gs, abfs and hdfs; http and https are
`web`'s, to read from; other URLs are fsspec's.

A file is written under a name that nothing reads, and then renamed: who reads sees all of it or none.
"""

from __future__ import annotations

import os
import posixpath
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyarrow import fs

from ..command import ThalwegError
from . import web

# What a file is called until it is whole.
UNFINISHED = ".tmp"


@dataclass(frozen=True)
class Place:
    """A directory on some file system."""

    files: fs.FileSystem
    base: str

    @staticmethod
    def of(where: str | os.PathLike[str]) -> Place:
        """The place that a path or URL names."""
        text = os.fspath(where)
        if "://" not in text:
            return Place(fs.LocalFileSystem(), os.path.abspath(text))
        if text.startswith(web.SCHEMES):
            return Place(fs.PyFileSystem(web.Web()), web.base_of(text))
        try:
            return Place(*fs.FileSystem.from_uri(text))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            pass
        try:
            import fsspec

            files, base = fsspec.core.url_to_fs(text)
        except ImportError:
            raise ThalwegError(f"{text}: pyarrow does not know such URLs; pip install fsspec, which knows more") from None
        except ValueError as reason:
            raise ThalwegError(f"{text}: {reason}") from None
        # (pyarrow-stubs leaves out the handler's methods.)
        return Place(fs.PyFileSystem(fs.FSSpecHandler(files)), base.rstrip("/"))  # type: ignore[abstract]

    @property
    def is_local(self) -> bool:
        """Whether its files have paths that the command can open."""
        return isinstance(self.files, fs.LocalFileSystem)

    def path(self, name: str) -> str:
        """The full path of a name in it."""
        return posixpath.join(self.base, name) if name else self.base

    def exists(self, name: str = "") -> bool:
        return bool(self.files.get_file_info(self.path(name)).type != fs.FileType.NotFound)

    def list(self, name: str = "") -> list[fs.FileInfo]:
        """What a directory holds, in the order of names; nothing where it is not there."""
        found = self.files.get_file_info(fs.FileSelector(self.path(name), allow_not_found=True))
        return sorted(found, key=lambda info: info.path)

    def read(self, name: str) -> bytes:
        with self.files.open_input_file(self.path(name)) as source:
            return bytes(source.read())

    def remove(self, name: str) -> None:
        self.files.delete_file(self.path(name))

    def write(self, name: str, data: bytes | pa.Buffer) -> None:
        """Write a file whole, or not at all; one of the same name is replaced."""
        folder, base = posixpath.split(self.path(name))
        self.files.create_dir(folder, recursive=True)
        unfinished = posixpath.join(folder, f".{base}.{uuid.uuid4().hex[:8]}{UNFINISHED}")
        if self.is_local:
            with open(unfinished, "wb") as out:
                out.write(data)
                out.flush()
                os.fsync(out.fileno())
            os.replace(unfinished, posixpath.join(folder, base))
            return
        with self.files.open_output_stream(unfinished) as out:
            out.write(data)
        self.files.move(unfinished, posixpath.join(folder, base))

    @contextmanager
    def local(self, name: str, scratch: Path) -> Iterator[Path]:
        """A file or directory of it, where the command can open it: fetched into `scratch` for as long as it is needed if it is elsewhere."""
        if self.is_local:
            yield Path(self.path(name))
            return
        into = scratch / posixpath.basename(name)
        fs.copy_files(self.path(name), str(into), source_filesystem=self.files, destination_filesystem=fs.LocalFileSystem())
        try:
            yield into
        finally:
            _remove(into)


def _remove(path: Path) -> None:
    if path.is_dir():
        for child in path.iterdir():
            _remove(child)
        path.rmdir()
    else:
        path.unlink(missing_ok=True)
