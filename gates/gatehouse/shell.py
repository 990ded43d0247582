"""Running other people's programs: output into a file, an end within a time, nothing left behind.

A program runs in a session of its own, so that what it forks can be ended with it. One that a file system does not answer cannot be
killed: then the mount is ended first (`Place.give_up`), which wakes it with an error.
"""

import ctypes
import os
import signal
import subprocess
import time

PR_SET_PDEATHSIG = 1


class Outcome:
    """How a program ended: `code` (None: it was too slow and was ended), its output, its time."""

    def __init__(self, argv, code, path, seconds):
        self.argv = argv
        self.code = code
        self.path = path
        self.seconds = seconds

    @property
    def output(self):
        """Standard output and error, together."""
        with open(self.path, errors="replace") as source:
            return source.read()

    def last_words(self, lines=3):
        """The end of the output, in one line."""
        words = [line.strip() for line in self.output.splitlines() if line.strip()]
        return " | ".join(words[-lines:])[-600:] or "it printed nothing"


def _die_with_parent():
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def start(argv, log, *, cwd=None, env=None, stdin=None, stdout=None):
    """Start a program whose output goes to the file `log`; the caller waits for it."""
    with open(log, "ab") as out:
        return subprocess.Popen(
            argv,
            cwd=cwd,
            env=dict(os.environ, LC_ALL="C", **(env or {})),
            stdin=stdin if stdin is not None else subprocess.DEVNULL,
            stdout=stdout if stdout is not None else out,
            stderr=out,
            start_new_session=True,
            preexec_fn=_die_with_parent,
        )


def end(process, wake=None):
    """End a program and what it forked; `wake` is called if it does not go within 10 s."""
    _signal(process)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        if wake:
            wake()
            _signal(process)
        process.wait(20)


def _signal(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def run(argv, log, timeout_s, *, cwd=None, env=None, wake=None):
    """Run a program to its end, or end it after `timeout_s`."""
    begun = time.monotonic()
    with open(log, "w") as out:
        out.write(f"$ {' '.join(argv)}\n")
    process = start(argv, log, cwd=cwd, env=env)
    try:
        code = process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        code = None
    finally:
        end(process, wake)
    return Outcome(argv, code, log, time.monotonic() - begun)
