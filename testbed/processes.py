"""Starting a process, waiting until it is ready, and ending it, by its own number and nothing else.

A process gets its own session: what it forks can be ended with it, and Ctrl-C at the terminal reaches us first, so that we end it in
order. It gets a parent-death signal as well, so that it does not outlive us even when we are killed. Its output goes to a file.
"""

import ctypes
import os
import signal
import socket
import subprocess
import time

from testbed import shell
from testbed.errors import NotRun
from testbed.hosts import LOOPBACK

PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)
START_TIMEOUT_S = 20.0
STOP_TIMEOUT_S = 10.0
POLL_S = 0.02


class Process:
    """A process on a host. `popen` is what else `subprocess.Popen` takes (`cwd`, `env`, `stdin`, `stdout`)."""

    def __init__(self, argv, log, host=LOOPBACK, **popen):
        self.log = log
        self.host = host
        with open(log, "ab") as out:
            if host.user:
                # Some programs open the same log by its name.
                os.chown(out.fileno(), host.user.number, -1)
            given = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": out, **popen}
            self.process = subprocess.Popen(host.argv(argv), start_new_session=True, preexec_fn=_before_exec, **given)

    @property
    def pid(self):
        """The process that was started; what it forks is in its process group."""
        return self.process.pid

    @property
    def is_running(self):
        """Whether it has not ended."""
        return self.process.poll() is None

    def output(self):
        """What it printed so far."""
        return shell.read(self.log) or ""

    def last_line(self):
        """The last line of its output, for an error message."""
        return shell.last_line(self.output())

    def wait_until(self, what, ready, failure=NotRun):
        """Return when `ready()` is true; `failure` if the process ends first or takes too long."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while not ready():
            if not self.is_running:
                raise failure(f"{self.process.args[0]} ended with code {self.process.returncode}: {self.last_line()}")
            if time.monotonic() > deadline:
                raise failure(f"{what}: nothing after {START_TIMEOUT_S:.0f} s: {self.last_line()}")
            time.sleep(POLL_S)

    def wait_for_word(self, what, word="ready", failure=NotRun):
        """Return when its output has this word."""
        self.wait_until(what, lambda: word in self.output(), failure)

    def wait_for_port(self, port):
        """Return when it accepts connections on `port`."""
        self.wait_until(f"port {port}", lambda: self.host.listens(self.pid, port))

    def group(self):
        """The processes of its group."""
        found = []
        for entry in filter(str.isdigit, os.listdir("/proc")):
            fields = (shell.read(f"/proc/{entry}/stat") or "").rpartition(")")[2].split()
            if fields and fields[0] != "Z" and fields[2] == str(self.pid):
                found.append(int(entry))
        return found

    def signal(self, number):
        """Send a signal to it and what it forked."""
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            pass

    def stop(self):
        """End it and what it forked; returns when it is gone."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            self.signal(number)
            try:
                self.process.wait(STOP_TIMEOUT_S)
                return
            except subprocess.TimeoutExpired:
                continue

    def kill(self, wake=None):
        """Kill it and what it forked. Where a file system does not answer it, it goes only after `wake()` has ended the mount."""
        self.signal(signal.SIGKILL)
        try:
            self.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            if wake:
                wake()
                self.signal(signal.SIGKILL)
            self.process.wait(2 * STOP_TIMEOUT_S)


class Outcome:
    """How a program ended: `code` (None: it was too slow and was killed), its output, its time."""

    def __init__(self, argv, code, output, seconds):
        self.argv = argv
        self.code = code
        self.output = output
        self.seconds = seconds

    def last_lines(self, count=3):
        """The end of the output, in one line."""
        lines = [line.strip() for line in self.output.splitlines() if line.strip()]
        return " | ".join(lines[-count:])[-600:] or "it printed nothing"


def run(argv, log, timeout_s, wake=None, **popen):
    """Run a program to its end, or kill it after `timeout_s`; the log begins with its command line."""
    begun = time.monotonic()
    with open(log, "w") as out:
        out.write(f"$ {' '.join(argv)}\n")
    program = Process(argv, log, **popen)
    try:
        code = program.process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        code = None
    finally:
        program.kill(wake)
    with open(log, errors="replace") as source:
        return Outcome(argv, code, source.read(), time.monotonic() - begun)


def free_port():
    """A TCP port on 127.0.0.1 that nobody listens on now: ask just before it is used."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _before_exec():
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
