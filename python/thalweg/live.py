"""Recording this very process, for as long as a `with` block lasts."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from . import command
from .command import CommandFailed
from .recording import Recording

# The recorder says this once it records.
BEGUN = "recording; Ctrl-C ends it"
# What it has to write when it ends it writes within this.
END_S = 120.0


@contextmanager
def record(output: str | os.PathLike[str] | None = None, *, method: str = "auto", options: Sequence[str] = ()) -> Iterator[Recording]:
    """Record this process, with all that it starts and talks to on this machine, while the block runs.

    ::

        with thalweg.record("run.thw") as run:
            shutil.copy("big", "/mnt/nfs/big")
        print(run.text())

    The recording can be read when the block has ended. Without `output` it is kept for as long as the object. `method` and `options` are those of
    `thalweg record`: this process runs already, so it is recorded in the kernel (which needs privilege) or by samples of /proc.
    """
    kept = tempfile.TemporaryDirectory(prefix="thalweg-") if output is None else None
    path = Path(kept.name) / "recording.thw" if kept else Path(output or "")
    recorder = _Recorder([command.find(), "record", "--also", f"pid:{os.getpid()}", f"--method={method}", "-o", str(path), *options])
    recording = Recording(path)
    if kept:
        weakref.finalize(recording, kept.cleanup)
    try:
        yield recording
    except BaseException:
        recorder.end(quietly=True)
        raise
    recorder.end()


class _Recorder:
    """`thalweg record`, under way."""

    def __init__(self, argv: list[str]) -> None:
        # In a session of its own: Ctrl-C in the terminal is for this process, which then ends the recorder.
        self.child = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        self.lines: list[str] = []
        assert self.child.stderr is not None
        self.said = self.child.stderr
        for line in self.said:
            self.lines.append(line)
            if BEGUN in line:
                break
        else:
            self._failed()
        # What it says is taken, so that it never waits for us.
        self.reader = threading.Thread(target=self.lines.extend, args=(self.said,), daemon=True)
        self.reader.start()

    def end(self, quietly: bool = False) -> None:
        """End it and wait until the recording is there; an error only where `quietly` is not asked for."""
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGINT)
        try:
            self.child.wait(END_S)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
        self.reader.join(END_S)
        self.said.close()
        if self.child.returncode and not quietly:
            self._failed()

    def _failed(self) -> None:
        code = self.child.wait()
        raise CommandFailed(command.said("".join(self.lines), code, "record"), code)
