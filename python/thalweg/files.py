"""Files of a store: read ahead where a reader goes on and on, and only what is asked for where it jumps; published when they are complete."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import threading
import warnings
from collections import deque
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from fsspec.spec import AbstractBufferedFile

from .sessions import Answer, Session

if TYPE_CHECKING:
    from collections.abc import Callable

    from .fs import ThalwegFileSystem

# Bytes of a read or write request: large enough that its costs do not matter, small enough that several are in flight.
PIECE_BYTES = 2 << 20
# Bound: requests of one file in flight.
IN_FLIGHT = 8
# Bound: bytes ahead of a sequential reader. Instead: a reader that is faster waits for the store.
WINDOW_BYTES = 32 << 20
# The first piece ahead; each next one is larger, up to PIECE_BYTES.
FIRST_BYTES = 256 << 10
# Reads that follow one another before anything is read ahead: two columns of a table may lie side by side.
READS_OF_A_STREAM = 3
# Bytes looked through for the end of a line at a time.
LINE_BYTES = 64 << 10


def read_pieces(post: Callable[[list[tuple[int, int]]], Future[Answer]], start: int, end: int, before: bytes = b"") -> bytes:
    """Read a range of any size behind `before`, in pieces of which several are in flight.

    They are written one after the other into what is returned: to join them at the end would need the memory of all of them twice.
    """
    out = io.BytesIO()
    out.write(before)
    flying: deque[Future[Answer]] = deque()
    for at in range(start, end, PIECE_BYTES):
        if len(flying) >= IN_FLIGHT:
            out.write(flying.popleft().result()[1])
        flying.append(post([(at, min(at + PIECE_BYTES, end))]))
    for future in flying:
        out.write(future.result()[1])
    return out.getvalue()


class Opened:
    """A file open for reading in a session. In a forked child, or when the session had to be started anew, it is opened again."""

    def __init__(self, fs: ThalwegFileSystem, path: str) -> None:
        self.fs, self.path = fs, path
        self.session = fs.session()
        head, _ = self.session.ask("open", path=path)
        self.size: int = head["size"]
        self._number: int = head["file"]
        self._identity = (head["of"], head["size"], head["modified_ns"])

    def current(self) -> Session:
        """The session in which the file is open."""
        session = self.fs.session()
        if session is not self.session:
            head, _ = session.ask("open", path=self.path)
            self.session, self._number = session, head["file"]
            if (head["of"], head["size"], head["modified_ns"]) != self._identity:
                raise OSError(errno.ESTALE, "the file was replaced or changed since it was opened; open it again", self.path)
        return self.session

    def post(self, ranges: list[tuple[int, int]]) -> Future[Answer]:
        """Ask for ranges, all of a size that one answer can hold."""
        return self.current().post("read", file=self._number, ranges=ranges)

    def read(self, start: int, end: int) -> bytes:
        """Read a range of any size."""
        return read_pieces(self.post, start, end)

    def close(self) -> None:
        """Close it, without waiting for the answer."""
        if self.session.dead is None:
            with contextlib.suppress(OSError):
                self.session.post("close", file=self._number)


class Ahead:
    """What was read of a file and may be read next: one window, of pieces in order without gaps, in memory or in flight.

    A reader whose reads follow one another has a window ahead of it that grows with what it has read. A reader that jumps gets what it asks for, in
    pieces of which several are in flight if it is much. As caches of fsspec, it has a `name` and `_fetch`.
    """

    name = "thalweg"

    def __init__(self, opened: Opened) -> None:
        self._opened, self._size = opened, opened.size
        self._session, self._process, self._lock = opened.session, os.getpid(), threading.Lock()
        self._pieces: deque[tuple[int, int, Future[Answer]]] = deque()
        # The last read, how many followed one another up to it, and how many bytes they had.
        self._last, self._reads, self._streamed = (0, 0), 0, 0
        self.asked_bytes = self.read_bytes = 0

    def _log_stats(self) -> str:
        return f"{self.read_bytes} bytes read, {self.asked_bytes} asked for"

    def _fetch(self, start: int | None, end: int | None) -> bytes:
        """The bytes of a range, or up to the end of the file."""
        start, end = start or 0, self._size if end is None else min(end, self._size)
        if start >= end:
            return b""
        if self._process != os.getpid():
            # Another thread may have held it when this process was forked.
            self._process, self._lock = os.getpid(), threading.Lock()
        with self._lock:
            session = self._opened.current()
            if session is not self._session:
                self._pieces.clear()
                self._session = session
            self._notice(start, end)
            try:
                return self._take(start, end)
            except BaseException:
                # What has failed is asked for again.
                self._pieces.clear()
                raise

    def close(self) -> None:
        self._pieces.clear()

    def _notice(self, start: int, end: int) -> None:
        began, ended = self._last
        if self._reads and began <= start <= ended:
            # A reader of lines reads the end of the last piece once more.
            new = max(0, end - ended)
            self._reads, self._streamed = self._reads + (new > 0), self._streamed + new
        else:
            self._reads, self._streamed = 1, end - start
        self._last = (start, end)
        self.read_bytes += end - start

    def _take(self, start: int, end: int) -> bytes:
        pieces = self._pieces
        if not pieces or not pieces[0][0] <= start <= pieces[-1][1]:
            pieces.clear()
        # One piece behind the reader is kept, for those that go back a little.
        while len(pieces) > 1 and pieces[1][1] <= start:
            pieces.popleft()
        out = io.BytesIO()
        at, number = start, 0
        while at < end:
            self._ask(at, end)
            begin, stop, future = pieces[number]
            if stop <= at:
                number += 1
                continue
            body = future.result()[1]
            upto = min(end, stop)
            if (at, upto) == (begin, stop) == (start, end):
                return body
            out.write(memoryview(body)[at - begin : upto - begin])
            at = upto
            while number > 1:
                pieces.popleft()
                number -= 1
        return out.getvalue()

    def _ask(self, at: int, end: int) -> None:
        """Ask for what is needed from `at` on, and for what a stream will need next."""
        pieces = self._pieces
        ahead = min(self._streamed, WINDOW_BYTES) if self._reads >= READS_OF_A_STREAM else 0
        reach = min(end + ahead, self._size)
        asked = pieces[-1][1] if pieces else at
        flying = sum(not future.done() for _, _, future in pieces)
        while asked < reach and (flying < IN_FLIGHT or asked <= at):
            if asked < end:
                stop = min(asked + PIECE_BYTES, end)
            else:
                stop = min(asked + max(FIRST_BYTES, min(PIECE_BYTES, self._streamed // 2)), self._size)
            pieces.append((asked, stop, self._opened.post([(asked, stop)])))
            self.asked_bytes += stop - asked
            asked, flying = stop, flying + 1


class ThalwegFile(AbstractBufferedFile):  # type: ignore[misc]
    """A file of a store, open for reading or writing.

    What is written appears under its name when the file is closed. If the block of its `with` ends in an exception, or the file is never closed,
    nothing appears.
    """

    DEFAULT_BLOCK_SIZE = PIECE_BYTES

    def __init__(
        self,
        fs: ThalwegFileSystem,
        path: str,
        mode: str = "rb",
        block_size: int | str | None = "default",
        autocommit: bool = True,
        cache_type: str | None = None,
        cache_options: dict[str, Any] | None = None,
        size: int | None = None,
        **kwargs: Any,
    ) -> None:
        if mode not in ("rb", "wb", "xb"):
            raise ValueError(f"mode {mode!r} of {path}: expected rb, wb or xb; a file of a store is written as a whole, not changed or appended to")
        self._writing: Session | None = None
        # What was last looked through for the ends of lines, and where it begins.
        self._block = (0, b"")
        if mode == "rb":
            self.opened = Opened(fs, path)
            is_own = cache_type in (None, Ahead.name)
            super().__init__(fs, path, mode, block_size, autocommit, "none" if is_own else cache_type, cache_options, self.opened.size, **kwargs)
            if is_own:
                self.cache = Ahead(self.opened)
            return
        # For fsspec, of which older versions do not know xb, it is a file like any that is written.
        super().__init__(fs, path, "wb", block_size, autocommit, cache_options=cache_options, **kwargs)
        session = fs.session()
        head, _ = session.ask("create", path=path, replace=mode == "wb", parents=fs.auto_mkdir)
        self._writing, self._number = session, head["file"]
        self._flying: deque[Future[Answer]] = deque()

    def __reduce__(self) -> Any:
        if self.mode != "rb":
            raise TypeError(f"{self.path} is being written, and only a file that is read can be pickled")
        return _reopened, (self.fs, self.path, self.blocksize, self.loc, self.cache.name if self.cache else "none", self.kwargs)

    def _fetch_range(self, start: int, end: int) -> bytes:
        return self.opened.read(start, min(end, self.size))

    def readline(self, size: int | None = -1) -> bytes:
        """Read up to and with the next end of line, or `size` bytes."""
        start, most = self.tell(), self.size if size is None or size < 0 else size
        first, block = self._block
        if not first <= start < first + len(block):
            first, block = self._block = start, self.read(LINE_BYTES)
        end = block.find(b"\n", start - first, start - first + most)
        if end >= 0:
            line = block[start - first : end + 1]
        else:
            # It goes on behind the block, or is the last one.
            self.seek(start)
            line = bytes(self.readuntil(b"\n", LINE_BYTES))[:most]
        self.seek(start + len(line))
        return line

    def _upload_chunk(self, final: bool = False) -> bool:
        session = self._own()
        try:
            whole = self.buffer.getbuffer()
            for at in range(0, len(whole), PIECE_BYTES):
                if len(self._flying) >= IN_FLIGHT:
                    self._flying.popleft().result()
                piece = whole[at : at + PIECE_BYTES]
                self._flying.append(session.post("write", piece, file=self._number, offset=self.offset + at))
            self.size = self.offset + len(whole)
            whole.release()
            while final and self._flying:
                self._flying.popleft().result()
        except BaseException:
            self.discard()
            raise
        if final and self.autocommit:
            self.commit()
        return True

    def _own(self) -> Session:
        """The session in which it is being written; an error in another process, or when it was given up."""
        if self._writing is None:
            raise OSError(errno.ECANCELED, "writing has failed before, and nothing was kept; open the file again", self.path)
        if self._writing.dead is not None:
            raise OSError(errno.ECONNRESET, f"it cannot be completed: {self._writing.dead.args[1]}", self.path)
        return self._writing

    def commit(self) -> None:
        """Publish it under its name."""
        session = self._own()
        # Published or not, the session has no such file afterwards.
        self._writing = None
        try:
            session.ask("publish", file=self._number, size=self.size, sync=self.fs.sync)
        except OSError as error:
            error.filename = error.filename or self.path
            raise

    def discard(self) -> None:
        """Give it up: nothing appears."""
        session, self._writing = self._writing, None
        if session is not None and session.dead is None:
            # An answer that was not waited for may still come.
            with contextlib.suppress(OSError):
                session.ask("discard", file=self._number)

    def close(self) -> None:
        """Close it; a file that was written is published."""
        was_open = not self.closed
        super().close()
        if was_open and self.mode == "rb":
            self.opened.close()

    def abandon(self) -> None:
        """Close it, and give up what was written."""
        if not self.closed and self.mode != "rb":
            self.discard()
            # Nothing is left to be written.
            self.forced = True
        self.close()

    def __exit__(self, kind: type[BaseException] | None, *_: Any) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()

    def __del__(self) -> None:
        if self.closed:
            return
        if self.mode != "rb" and self._writing is not None and self._writing.dead is None:
            warnings.warn(f"{self.path} was written and not closed: it is not kept", ResourceWarning, stacklevel=2, source=self)
        with contextlib.suppress(Exception):
            self.abandon()


def _reopened(fs: ThalwegFileSystem, path: str, block_size: int, at: int, cache_type: str, kwargs: dict[str, Any]) -> ThalwegFile:
    file = ThalwegFile(fs, path, "rb", block_size, cache_type=cache_type, **kwargs)
    file.seek(at)
    return file


class CompressedWriter(io.RawIOBase):
    """What is compressed into a file of a store. The compressors of fsspec leave the file below them open, which then would not be published."""

    def __init__(self, compressor: Any, below: ThalwegFile) -> None:
        self.compressor, self.below = compressor, below

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        return int(self.compressor.write(data))

    def flush(self) -> None:
        """Nothing: the end of a compressed block is the compressor's to choose."""

    def close(self) -> None:
        if not self.closed:
            super().close()
            self.compressor.close()
            self.below.close()

    def abandon(self) -> None:
        """Close it, and give up what was written."""
        if not self.closed:
            super().close()
            with contextlib.suppress(Exception):
                self.compressor.close()
            self.below.abandon()

    def __exit__(self, kind: type[BaseException] | None, *_: Any) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.abandon()


class TextWriter(io.TextIOWrapper):
    """Text written to a file of a store, which is given up as the file is."""

    def __exit__(self, kind: type[BaseException] | None, *_: Any) -> None:
        if kind is not None and isinstance(self.buffer, (ThalwegFile, CompressedWriter)):
            self.buffer.abandon()
        self.close()
