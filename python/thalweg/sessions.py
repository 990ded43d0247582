"""Sessions with stores: a `thalweg session` process each, which holds the credential, and whose frames are written and read here.

Every process has its own sessions, one for a store and a credential, shared by its threads and ended with it. A forked child leaves its
parent's alone and starts its own. crates/cli/SESSION.md describes frames and requests.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import fcntl
import itertools
import json
import os
import struct
import subprocess
import tempfile
import threading
from collections.abc import Iterable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

from .command import CommandFailed, ThalwegError, find, said

PROTOCOL = "thalweg.session/1"
# The two lengths before each frame: of its JSON head, and of its raw bytes.
LENGTHS = struct.Struct("<II")
# Bound: bytes of an answer's head, far over what a page of a listing has. Instead: an answer that exceeds it ends the session with an error.
HEAD_BYTES = 64 << 20
# Bytes that a pipe holds, where the system allows it: fewer wake-ups for each piece. (Python has had a name for F_SETPIPE_SZ since 3.10.)
PIPE_BYTES, SET_PIPE_BYTES = 1 << 20, 1031
# Seconds that a session has to end by itself when its process ends.
END_S = 10

# An answer's head, with all entries of a listing, and its raw bytes.
Answer = tuple[dict[str, Any], bytes]


@dataclass(frozen=True)
class Options:
    """What tells one session from another. The credential is the path of a file, never the secret."""

    store: str
    credential: str | None
    timeout_s: float | None

    def start(self, stderr: BinaryIO) -> subprocess.Popen[bytes]:
        """Start the command. Store and credential are in its environment: its arguments can be seen by every user of the machine."""
        environment = {name: value for name, value in os.environ.items() if name != "THALWEG_CREDENTIAL"}
        environment["THALWEG_STORE"] = self.store
        if self.credential:
            environment["THALWEG_CREDENTIAL"] = self.credential
        words = [os.path.abspath(find()), "session"]
        if self.timeout_s is not None:
            words += ["--timeout", f"{self.timeout_s:g}s"]
        # Ctrl-C in a terminal is for this process: it decides what becomes of open files.
        return subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, env=environment, start_new_session=True, cwd="/"
        )


def named(path: str) -> str | dict[str, str]:
    """A path as requests have it: text, or the bytes of a name that is not UTF-8 (as `os.fsdecode` makes them text) in hexadecimal."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return {"hexadecimal": path.encode("utf-8", "surrogateescape").hex()}
    return path


def path_of(name: str | dict[str, str]) -> str:
    """The reverse of `named`."""
    return name if isinstance(name, str) else bytes.fromhex(name["hexadecimal"]).decode("utf-8", "surrogateescape")


def exception(problem: dict[str, Any], path: str | None = None) -> OSError:
    """The exception for an error of an answer: the errno chooses its class (`FileNotFoundError`, `TimeoutError`...), or the kind where it cannot."""
    kind, number, text = problem["kind"], problem["errno"], problem["text"]
    about = problem.get("file") or path
    classes = {"not_found": FileNotFoundError, "exists": FileExistsError, "refused": PermissionError, "unreachable": ConnectionError}
    made = OSError(number, text) if about is None else OSError(number, text, about)
    wanted = classes.get(kind, OSError)
    if not isinstance(made, (wanted, TimeoutError)):
        made = wanted(number, text) if about is None else wanted(number, text, about)
    return made


class Session:
    """A running session. Requests may be made from any thread, and any number may be in flight."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.dead: OSError | None = None
        # Raw bytes of all answers: what was read of the store.
        self.received_bytes = 0
        self._said = cast(BinaryIO, tempfile.TemporaryFile())  # noqa: SIM115
        self._process = options.start(self._said)
        assert self._process.stdin is not None and self._process.stdout is not None
        self._in, self._out = self._process.stdin.fileno(), cast(BinaryIO, self._process.stdout)
        for pipe in (self._in, self._out.fileno()):
            with contextlib.suppress(OSError):
                fcntl.fcntl(pipe, SET_PIPE_BYTES, PIPE_BYTES)
        self._sending, self._changing = threading.Lock(), threading.Lock()
        self._waiting: dict[int, tuple[Future[Answer], list[Any], str | None]] = {}
        self._numbers = itertools.count(1)
        self.greeting = self._greeted()
        self._listener = threading.Thread(target=self._listen, name="thalweg session", daemon=True)
        self._listener.start()

    def _greeted(self) -> dict[str, Any]:
        """The greeting; an exception, and no process, if there is none, or an error in its place."""
        try:
            first = self._receive()
            if first is None:
                raise ThalwegError(self._why())
            greeting = first[0]
            if greeting.get("session") != PROTOCOL:
                raise ThalwegError(f"the thalweg command speaks {greeting.get('session')}, and this package {PROTOCOL}: use those of one release")
            if "error" in greeting:
                raise exception(greeting["error"])
            return greeting
        except BaseException:
            self.close()
            self._out.close()
            self._said.close()
            raise

    def ask(self, do: str, body: Any = b"", *, path: Any = None, **fields: Any) -> Answer:
        """Make a request and wait for its answer. `path` is a field, and what an exception names."""
        return self.post(do, body, path=path, **fields).result()

    def post(self, do: str, body: Any = b"", *, path: Any = None, **fields: Any) -> Future[Answer]:
        """Make a request. `body` is written when this returns."""
        number, future = next(self._numbers), Future[Answer]()
        head = {"id": number, "do": do, **({} if path is None else {"path": named(path)}), **fields}
        encoded = json.dumps(head).encode()
        body = memoryview(body).cast("B")
        with self._changing:
            if self.dead is not None:
                raise self._gone()
            self._waiting[number] = (future, [], path)
        try:
            with self._sending:
                if self.dead is not None:
                    raise self._gone()
                self._write([LENGTHS.pack(len(encoded), len(body)), encoded, body])
        except OSError:
            # The listener finds out why, and tells every request.
            with contextlib.suppress(TimeoutError, FutureTimeout):
                if future.exception(END_S) is not None:
                    return future
            raise
        return future

    def _write(self, parts: list[Any]) -> None:
        parts = [memoryview(part) for part in parts if len(part)]
        try:
            while parts:
                written = os.writev(self._in, parts)
                while parts and written >= len(parts[0]):
                    written -= len(parts.pop(0))
                if parts:
                    parts[0] = parts[0][written:]
        except BaseException:
            # Ctrl-C within a frame: no other can follow it.
            self._process.kill()
            raise

    def _receive(self) -> Answer | None:
        """The next frame; None at the end."""
        lengths = self._out.read(LENGTHS.size)
        if len(lengths) < LENGTHS.size:
            return None
        head_bytes, body_bytes = LENGTHS.unpack(lengths)
        if head_bytes > HEAD_BYTES:
            raise ThalwegError(f"an answer's head of {head_bytes} bytes: expected at most {HEAD_BYTES}; is it a command that speaks {PROTOCOL}?")
        head = self._out.read(head_bytes)
        body = self._out.read(body_bytes) if body_bytes else b""
        self.received_bytes += len(body)
        if len(head) < head_bytes or len(body) < body_bytes:
            return None
        return json.loads(head), body

    def _listen(self) -> None:
        """Hand answers to those that wait, until the session ends."""
        why = ""
        try:
            while (answer := self._receive()) is not None:
                self._answered(*answer)
        except (ThalwegError, ValueError, OSError) as reason:
            why = str(reason)
        why = why or self._why()
        with self._changing:
            self.dead = self.dead or ConnectionError(errno.ECONNRESET, f"the session with {self.options.store} ended: {why}")
            waiting, self._waiting = self._waiting, {}
        for future, _, _ in waiting.values():
            future.set_exception(self._gone())
        self._hang_up()
        self._out.close()
        self._said.close()

    def _answered(self, head: dict[str, Any], body: bytes) -> None:
        number = head.get("id")
        if number is None:
            # The session ends after this.
            raise ThalwegError(head.get("error", {}).get("text", "an answer without a number"))
        with self._changing:
            future, entries, path = self._waiting[number] if head.get("more") else self._waiting.pop(number)
        entries.extend(head.get("entries", ()))
        if head.get("more"):
            return
        if "error" in head:
            future.set_exception(exception(head["error"], path))
        else:
            future.set_result(({**head, "entries": entries}, body))

    def _gone(self) -> OSError:
        """An exception of its own for each request: a traceback is added to it where it is raised."""
        assert self.dead is not None
        return ConnectionError(*self.dead.args)

    def _why(self) -> str:
        """The last that the process said, or how it ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(END_S)
        self._said.seek(0)
        return said(self._said.read().decode(errors="replace"), self._process.poll() or 0, "session")

    def close(self) -> None:
        """End the process: what was asked is still done, and files that were not published are removed."""
        self._hang_up()
        for end in (None, self._process.terminate, self._process.kill):
            if end is not None:
                end()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(END_S)
                break
        listener = getattr(self, "_listener", None)
        if listener is not None and listener is not threading.current_thread():
            # At the end of the interpreter, a thread that is still at work would be cut off, and never answer those that wait.
            listener.join(END_S)

    def _hang_up(self) -> None:
        """Close the session's input; a thread that writes a request finishes it first, if the session still reads."""
        assert self._process.stdin is not None
        is_mine = self._sending.acquire(timeout=END_S)
        try:
            # Nobody writes to its number again, which another file may have then.
            self.dead = self.dead or ConnectionError(errno.ECONNRESET, f"the session with {self.options.store} was closed")
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        finally:
            if is_mine:
                self._sending.release()

    def leave(self) -> None:
        """In a forked child: let go of the parent's pipes, or the session would not see that the parent has ended."""
        null = os.open(os.devnull, os.O_RDWR)
        # The numbers stay taken: the file objects of the parent close them once more.
        for pipe in (self._in, self._out.fileno()):
            os.dup2(null, pipe)
        os.close(null)
        self._process.returncode = 0
        self._changing = threading.Lock()
        self.dead = ConnectionError(errno.ECONNRESET, "this session is of the process that forked this one")


_sessions: dict[Options, Session] = {}
# Kept, so that no finalizer runs for what is another process's.
_of_parents: list[Session] = []
_starting = threading.Lock()


def session_of(options: Options) -> Session:
    """This process's session with these options, started if there is none, or if it has ended."""
    session = _sessions.get(options)
    if session is not None and session.dead is None:
        return session
    with _starting:
        session = _sessions.get(options)
        if session is None or session.dead is not None:
            session = _sessions[options] = Session(options)
        return session


def close(options: Options) -> None:
    """End the session with these options, if there is one."""
    with _starting:
        session = _sessions.pop(options, None)
    if session is not None:
        session.close()


def _close_all() -> None:
    sessions: Iterable[Session] = list(_sessions.values())
    _sessions.clear()
    for session in sessions:
        session.close()


def _forked() -> None:
    global _starting
    _starting = threading.Lock()
    for session in _sessions.values():
        if session.dead is None:
            session.leave()
        _of_parents.append(session)
    _sessions.clear()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_forked)
