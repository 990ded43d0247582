"""Stores as an fsspec file system, for pandas, Dask, Zarr and whatever else takes `thal://` addresses.

::

    pandas.read_parquet("thal://127.0.0.1:7000/runs/x.parquet", columns=["a", "b"])
    fs = fsspec.filesystem("thal", store="store.toml")           # or THALWEG_STORE
    with fs.open("/results/x.csv", "w") as out: ...              # appears when the block ends
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from datetime import datetime, timezone
from typing import Any

from fsspec.callbacks import DEFAULT_CALLBACK
from fsspec.compression import compr
from fsspec.core import get_compression
from fsspec.implementations.local import LocalFileSystem
from fsspec.spec import AbstractFileSystem
from fsspec.utils import stringify_path

from . import sessions
from .command import ThalwegError
from .files import PIECE_BYTES, CompressedWriter, TextWriter, ThalwegFile, read_pieces
from .sessions import Answer, Options, Session, exception, named, path_of

SCHEME = "thal:"
# Bounds of one request: ranges of a file, and bytes of them together. Instead: several requests, which overlap.
RANGES, RANGES_BYTES = 512, 8 << 20
# Bytes that one request can write, a little less than a frame holds.
PUT_BYTES = 16 << 20
# Bound: files of `cat_ranges` opened at a time.
FILES_AT_A_TIME = 64
# A depth that no tree has.
ALL_DEPTHS = (1 << 32) - 1
TYPES = {"file": "file", "directory": "directory", "symlink": "link"}
Info = dict[str, Any]


def split(url: str) -> tuple[str | None, str]:
    """The store of an address (`thal://HOST:PORT`), if it names one, and the path in it."""
    if not url.startswith(SCHEME):
        return None, url
    rest = url.removeprefix(SCHEME)
    if not rest.startswith("//"):
        return None, rest
    authority, slash, path = rest[2:].partition("/")
    return f"{SCHEME}//{authority}" if authority else None, slash + path


class _Environment:
    """What a file system without options takes from the environment: without it, fsspec would return one made under another environment."""

    def __get__(self, instance: Any, owner: Any) -> tuple[str | None, ...]:
        return tuple(os.environ.get(name) for name in ("THALWEG", "THALWEG_STORE", "THALWEG_CREDENTIAL"))


class _Strip:
    """`_strip_protocol`, which fsspec calls on the class and on instances: an instance also refuses addresses of another store than its own."""

    def __get__(self, instance: ThalwegFileSystem | None, owner: Any) -> Callable[[Any], Any]:
        return functools.partial(self._strip, instance)

    def _strip(self, fs: ThalwegFileSystem | None, path: Any) -> Any:
        if isinstance(path, list):
            return [self._strip(fs, one) for one in path]
        store, bare = split(stringify_path(path))
        if fs is not None and store is not None and not fs.is_at(store):
            raise ValueError(f"{path} is in another store than this file system, which is {fs.store}")
        return "/" + bare.strip("/")


class ThalwegFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """The files of a store.

    `store` is `thal://HOST:PORT` or the path of a `store.toml` (default: `THALWEG_STORE`), `credential` the path of a credential file (default:
    `THALWEG_CREDENTIAL`, or the one made for the user who started the store), `timeout` how many seconds a silent server is waited for (30).
    With `auto_mkdir`, which is the default, directories come into being with the files in them. With `sync`, a file that was closed is on stable storage.
    """

    protocol = "thal"
    root_marker = "/"
    _extra_tokenize_attributes = ("_environment",)
    _environment = _Environment()
    _strip_protocol = _Strip()

    def __init__(
        self,
        store: str | os.PathLike[str] | None = None,
        credential: str | os.PathLike[str] | None = None,
        timeout: float | None = None,
        auto_mkdir: bool = True,
        sync: bool = False,
        **kwargs: Any,
    ) -> None:
        if getattr(self, "_cached", False):
            return
        super().__init__(**kwargs)
        given = os.fspath(store) if store else os.environ.get("THALWEG_STORE")
        if not given:
            raise ValueError("no store: write thal://HOST:PORT/path, give store=, or set THALWEG_STORE")
        self.store = given.rstrip("/") if given.startswith(SCHEME) else os.path.abspath(given)
        file = os.fspath(credential) if credential else os.environ.get("THALWEG_CREDENTIAL")
        self.credential = os.path.abspath(file) if file else None
        self.timeout, self.auto_mkdir, self.sync = timeout, auto_mkdir, sync
        self._options = Options(self.store, self.credential, timeout)

    def __reduce__(self) -> Any:
        # With what was found in the environment: another process may have another one.
        given = dict(zip(("store", "credential", "timeout", "auto_mkdir", "sync"), self.storage_args))
        return _made, (type(self), {**given, **self.storage_options, "store": self.store, "credential": self.credential})

    @staticmethod
    def _get_kwargs_from_urls(url: Any) -> dict[str, str]:
        store, _ = split(stringify_path(url))
        return {"store": store} if store else {}

    def unstrip_protocol(self, name: str) -> str:
        """The whole address of a path."""
        path = self._strip_protocol(name)
        return f"{self.store}{path}" if self.store.startswith(SCHEME) else f"{SCHEME}//{path}"

    @property
    def fsid(self) -> str:
        """The store, whatever its address."""
        return f"thal_{self.session().greeting['store']}"

    def is_at(self, store: str) -> bool:
        """Whether an address of a store is this one's."""
        if self.store.startswith(SCHEME):
            return store == self.store
        return store == f"{SCHEME}//{self.session().greeting['address']}"

    def session(self) -> Session:
        """This process's session with the store."""
        return sessions.session_of(self._options)

    def close(self) -> None:
        """End this process's session with the store; the next use starts another."""
        sessions.close(self._options)

    # Names.

    def info(self, path: str, **_: Any) -> Info:
        path = self._strip_protocol(path)
        head, _body = self.session().ask("stat", path=path)
        return {**_info(head["entry"], ""), "name": path}

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        path = self._strip_protocol(path)
        try:
            infos = self._listed(path, 1)
        except NotADirectoryError:
            infos = [self.info(path)]
        return infos if detail else [info["name"] for info in infos]

    def _listed(self, path: str, depth: int) -> list[Info]:
        head, _ = self.session().ask("list", path=path, depth=depth)
        return [_info(entry, path) for entry in head["entries"]]

    def find(self, path: str, maxdepth: int | None = None, withdirs: bool = False, detail: bool = False, **_: Any) -> Any:
        path = self._strip_protocol(path)
        if maxdepth is not None and maxdepth < 1:
            raise ValueError("maxdepth must be at least 1")
        try:
            infos = self._listed(path, min(maxdepth or ALL_DEPTHS, ALL_DEPTHS))
            if withdirs and path != self.root_marker:
                infos.append(self.info(path))
        except NotADirectoryError:
            infos = [self.info(path)]
        except FileNotFoundError:
            infos = []
        # Links to directories, and links that lead nowhere, are no files; as directories, they are entries.
        found = {info["name"]: info for info in sorted(infos, key=lambda info: str(info["name"])) if withdirs or info["type"] == "file"}
        return found if detail else list(found)

    def exists(self, path: str, **_: Any) -> bool:
        return self._info_if_there(path) is not None

    def isdir(self, path: str) -> bool:
        info = self._info_if_there(path)
        return info is not None and info["type"] == "directory"

    def isfile(self, path: str) -> bool:
        info = self._info_if_there(path)
        return info is not None and info["type"] == "file"

    def _info_if_there(self, path: str) -> Info | None:
        """What is there, if anything. That a store cannot be reached is an error, and not that nothing is there."""
        try:
            return self.info(path)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def created(self, path: str) -> datetime:
        return datetime.fromtimestamp(self.info(path)["created"], timezone.utc)

    def modified(self, path: str) -> datetime:
        return datetime.fromtimestamp(self.info(path)["mtime"], timezone.utc)

    def mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        self.session().ask("mkdir", path=self._strip_protocol(path), parents=create_parents)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        self.session().ask("mkdir", path=self._strip_protocol(path), parents=True, exists=exist_ok)

    def rmdir(self, path: str) -> None:
        self.session().ask("remove", path=self._strip_protocol(path), what="directory")

    def rm_file(self, path: str) -> None:
        self.session().ask("remove", path=self._strip_protocol(path), what="file")

    def _rm(self, path: str) -> None:
        self.rm_file(path)

    def rm(self, path: Any, recursive: bool = False, maxdepth: int | None = None) -> None:
        if maxdepth is not None:
            for one in reversed(self.expand_path(path, recursive=recursive, maxdepth=maxdepth)):
                (self.rmdir if self.isdir(one) else self.rm_file)(one)
            return
        paths: list[str] = []
        for one in path if isinstance(path, (list, tuple, set)) else [path]:
            bare = self._strip_protocol(one)
            # A name with characters of a pattern is that name first of all.
            is_pattern = any(character in bare for character in "*?[") and not self.exists(bare)
            paths.extend(self.expand_path(bare) if is_pattern else [bare])
        session = self.session()
        removals = [session.post("remove", path=one, what="tree" if recursive else "file") for one in paths]
        for removal in removals:
            removal.result()

    def mv(self, path1: Any, path2: Any, recursive: bool = False, maxdepth: int | None = None, **kwargs: Any) -> None:
        if isinstance(path1, (list, tuple)) or any(character in str(path1) for character in "*?["):
            super().mv(path1, path2, recursive=recursive, maxdepth=maxdepth, **kwargs)
            return
        source, target = self._strip_protocol(path1), self._strip_protocol(path2)
        if source == target:
            return
        if stringify_path(path2).endswith("/") or self.isdir(target):
            target = f"{target.rstrip('/')}/{source.rpartition('/')[2]}"
        rename = functools.partial(self.session().ask, "rename", to=named(target), replace=True)
        try:
            rename(**{"from": named(source)})
        except FileNotFoundError:
            if not self.auto_mkdir or not self.exists(source):
                raise
            self.makedirs(self._parent(target), exist_ok=True)
            rename(**{"from": named(source)})

    def touch(self, path: str, truncate: bool = True, **_: Any) -> None:
        path = self._strip_protocol(path)
        if truncate:
            self.pipe_file(path, b"")
            return
        try:
            self.session().ask("touch", path=path)
        except FileNotFoundError:
            self.pipe_file(path, b"", mode="create")

    # Bytes.

    def open(self, path: str, mode: str = "rb", **kwargs: Any) -> Any:
        """Open a file. One that is written appears under its name when it is closed, unless the block of its `with` ends in an exception."""
        if "r" in mode:
            return super().open(path, mode, **kwargs)
        if "b" not in mode:
            text = {name: kwargs.pop(name) for name in ("encoding", "errors", "newline") if name in kwargs}
            return TextWriter(self.open(path, mode.replace("t", "") + "b", **kwargs), **text)
        compression = get_compression(path, kwargs.pop("compression", None))
        file = super().open(path, mode, **kwargs)
        return file if compression is None else CompressedWriter(compr[compression](file, mode=mode[0]), file)

    def _open(self, path: str, mode: str = "rb", block_size: int | None = None, autocommit: bool = True, **kwargs: Any) -> ThalwegFile:
        return ThalwegFile(self, path, mode, block_size, autocommit, **kwargs)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        path = self._strip_protocol(path)
        session = self.session()
        head, body = session.ask("open", path=path, ranges=[(start or 0, end)])
        try:
            begin, stop, _step = slice(start, end).indices(head["size"])
            if len(body) >= stop - begin:
                return body
            rest = functools.partial(session.post, "read", b"", file=head["file"])
            return read_pieces(lambda ranges: rest(ranges=ranges), begin + len(body), stop, body)
        finally:
            session.post("close", file=head["file"])

    def cat_ranges(self, paths: list[str], starts: Any, ends: Any, max_gap: int | None = None, on_error: str = "return", **_: Any) -> list[Any]:
        """Read ranges of files, those of a file in one request, and of many files at a time."""
        if not isinstance(paths, list):
            raise TypeError("paths: expected a list")
        starts, ends = (each if isinstance(each, list) else [each] * len(paths) for each in (starts, ends))
        if not len(paths) == len(starts) == len(ends):
            raise ValueError(f"{len(paths)} paths, {len(starts)} starts and {len(ends)} ends: expected as many of each")
        of_path: dict[str, list[int]] = {}
        for number, path in enumerate(paths):
            of_path.setdefault(self._strip_protocol(path), []).append(number)
        out: list[Any] = [None] * len(paths)
        each = list(of_path.items())
        for at in range(0, len(each), FILES_AT_A_TIME):
            self._ranges(each[at : at + FILES_AT_A_TIME], [(start or 0, end) for start, end in zip(starts, ends)], out)
        if on_error == "raise":
            for one in out:
                if isinstance(one, BaseException):
                    raise one
        return out

    def _ranges(self, files: Iterable[tuple[str, list[int]]], ranges: list[tuple[int, int | None]], out: list[Any]) -> None:
        """Read ranges of some files into `out`, or the exceptions in their places."""
        session = self.session()
        opening = []
        for path, numbers in files:
            batches = list(_batches(numbers, ranges))
            opening.append((path, batches, session.post("open", path=path, ranges=[ranges[number] for number in batches[0]])))
        reading: list[tuple[str, list[int], Future[Answer]]] = []
        opened = []
        for path, batches, future in opening:
            reading.append((path, batches[0], future))
            try:
                file = future.result()[0]["file"]
            except OSError as error:
                for number in (number for batch in batches for number in batch):
                    out[number] = error
                continue
            opened.append(file)
            for batch in batches[1:]:
                reading.append((path, batch, session.post("read", file=file, ranges=[ranges[number] for number in batch])))
        for path, batch, future in reading:
            if future.exception() is not None:
                for number in batch:
                    out[number] = out[number] or future.exception()
                continue
            head, body = future.result()
            at = 0
            for number, length in zip(batch, head["lengths"]):
                start, end = ranges[number]
                # What is too much for one answer was cut.
                whole = len(batch) > 1 or length < PUT_BYTES
                out[number] = body[at : at + length] if whole else self.cat_file(path, start, end)
                at += length
        for file in opened:
            session.post("close", file=file)

    def pipe_file(self, path: str, value: Any, mode: str = "overwrite", **_: Any) -> None:
        path = self._strip_protocol(path)
        bytes_of = memoryview(value).cast("B")
        if len(bytes_of) > PUT_BYTES:
            with self.open(path, "xb" if mode == "create" else "wb") as out:
                for at in range(0, len(bytes_of), PIECE_BYTES):
                    out.write(bytes_of[at : at + PIECE_BYTES])
            return
        self.session().ask("put", bytes_of, path=path, replace=mode != "create", parents=self.auto_mkdir, sync=self.sync)

    def cp_file(self, path1: str, path2: str, **_: Any) -> None:
        source, target = self._strip_protocol(path1), self._strip_protocol(path2)
        try:
            self._copy({"path": named(source)}, {"path": named(target)})
        except IsADirectoryError:
            if not self.isdir(source):
                raise
            self.makedirs(target, exist_ok=True)

    def get_file(self, rpath: str, lpath: Any, callback: Any = DEFAULT_CALLBACK, outfile: Any = None, **kwargs: Any) -> None:
        if outfile is not None or callback is not DEFAULT_CALLBACK or not isinstance(lpath, (str, os.PathLike)):
            super().get_file(rpath, lpath, callback=callback, outfile=outfile, **kwargs)
            return
        local = os.path.abspath(LocalFileSystem._strip_protocol(lpath))
        os.makedirs(os.path.dirname(local), exist_ok=True)
        try:
            self._copy({"path": named(self._strip_protocol(rpath))}, {"local": named(local)})
        except IsADirectoryError:
            if not self.isdir(rpath):
                raise
            os.makedirs(local, exist_ok=True)

    def put_file(self, lpath: Any, rpath: str, callback: Any = DEFAULT_CALLBACK, mode: str = "overwrite", **kwargs: Any) -> None:
        local = os.path.abspath(LocalFileSystem._strip_protocol(lpath))
        if callback is not DEFAULT_CALLBACK and not os.path.isdir(local):
            super().put_file(lpath, rpath, callback=callback, mode=mode, **kwargs)
        elif os.path.isdir(local):
            self.makedirs(rpath, exist_ok=True)
        else:
            self._copy({"local": named(local)}, {"path": named(self._strip_protocol(rpath))}, replace=mode != "create")

    def _copy(self, source: dict[str, Any], target: dict[str, Any], replace: bool = True) -> None:
        """Copy a file; the bytes, and the holes between them, do not pass through this process."""
        fields = {"from": source, "to": target, "replace": replace, "parents": self.auto_mkdir, "sync": self.sync}
        self.session().ask("copy", **fields)


def _made(cls: type[ThalwegFileSystem], options: dict[str, Any]) -> ThalwegFileSystem:
    return cls(**options)


def _info(entry: dict[str, Any], directory: str) -> Info:
    """An entry as fsspec has it. A size that is not known, because a server does not answer, is None."""
    info = {
        "name": f"{directory.rstrip('/')}/{path_of(entry['name'])}",
        "type": TYPES.get(entry["type"], "other"),
        "size": entry.get("size"),
        "mtime": entry["modified_ns"] / 1e9,
        "created": entry["created_ns"] / 1e9,
        "islink": "link" in entry,
        **{field: entry[field] for field in ("mode", "uid", "gid", "id")},
    }
    if "link" in entry:
        info["destination"] = path_of(entry["link"])
    if "problem" in entry:
        info["problem"] = str(exception(entry["problem"]))
    return info


def _batches(numbers: list[int], ranges: list[tuple[int, int | None]]) -> Iterable[list[int]]:
    """Numbers of ranges that fit one answer together; one whose size is not known, or that is larger, is alone."""
    batch: list[int] = []
    bytes_of = 0
    for number in numbers:
        start, end = ranges[number]
        length = end - start if end is not None and 0 <= start <= end else RANGES_BYTES
        if batch and (len(batch) >= RANGES or bytes_of + length > RANGES_BYTES):
            yield batch
            batch, bytes_of = [], 0
        batch.append(number)
        bytes_of += length
    if batch:
        yield batch


__all__ = ["ThalwegError", "ThalwegFileSystem"]
