"""Starting a server, waiting until it answers, and ending it: what every server module needs.

A server gets its own session, so that Ctrl-C at the terminal reaches us first and we end it in order, and a parent-death signal,
so that it does not outlive us even when we are killed. Ports are asked of the kernel just before use.
"""

import ctypes
import glob
import os
import shutil
import signal
import socket
import subprocess
import time

PR_SET_PDEATHSIG = 1
START_TIMEOUT_S = 20.0
STOP_TIMEOUT_S = 10.0


class Unavailable(Exception):
    """This machine cannot run the server; the message is one sentence that says why."""


def install(packages):
    """Make sure that Debian packages are there, with apt-get when we are root.

    `packages` maps a package to what proves its presence: a command's name, or a path pattern. `Unavailable` says what is missing.
    """

    def missing():
        return sorted(package for package, proof in packages.items() if not _is_there(proof))

    wanted = missing()
    if not wanted:
        return
    listed = " ".join(wanted)
    if os.geteuid() != 0:
        raise Unavailable(f"not installed, and only root can install it: apt-get install {listed}")
    if shutil.which("apt-get") is None:
        raise Unavailable(f"not installed, and this machine has no apt-get: {listed}")
    environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *wanted]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        subprocess.run(["apt-get", "update", "-qq"], env=environment, capture_output=True, check=False)
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if missing():
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise Unavailable(f"apt-get install {listed} did not provide {' '.join(missing())}: {last}")


def _is_there(proof):
    return bool(glob.glob(proof)) if "/" in proof else shutil.which(proof) is not None


def free_port():
    """A TCP port on 127.0.0.1 that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _before_exec():
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


class Loopback:
    """Where a server runs when nobody says otherwise: this machine, on 127.0.0.1.

    Anything with these members can take its place, such as a network namespace: `address` is what the server binds to and
    clients connect to, `argv` puts what is needed to get there in front of a command, `listens` says whether a started server
    accepts connections on a port.
    """

    address = "127.0.0.1"

    def argv(self, argv):
        """The command as it is started here."""
        return argv

    def listens(self, _server, port):
        """Whether a connection is accepted."""
        return accepts(port)


LOOPBACK = Loopback()


class Server:
    """One server process with its own process group, its output in a file."""

    def __init__(self, argv, log_path, host=LOOPBACK):
        self.log_path = log_path
        self.host = host
        argv = host.argv(argv)
        with open(log_path, "ab") as log:
            self.process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, preexec_fn=_before_exec
            )

    @property
    def pid(self):
        """The process that was started; what it forks is in its process group."""
        return self.process.pid

    def last_words(self):
        """The last line of its output, for an error message."""
        with open(self.log_path, errors="replace") as log:
            lines = [line.strip() for line in log if line.strip()]
        return lines[-1] if lines else "it printed nothing"

    def wait_until(self, what, ready):
        """Return when `ready()` is true; `Unavailable` if the process ends first or takes too long."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while not ready():
            if self.process.poll() is not None:
                raise Unavailable(f"{self.process.args[0]} ended with code {self.process.returncode}: {self.last_words()}")
            if time.monotonic() > deadline:
                raise Unavailable(f"{what}: nothing after {START_TIMEOUT_S:.0f} s: {self.last_words()}")
            time.sleep(0.02)

    def wait_for_port(self, port):
        """Return when somebody accepts connections on `port`."""
        self.wait_until(f"port {port}", lambda: self.host.listens(self, port))

    def stop(self):
        """End the process and what it forked; returns when it is gone."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, number)
            except ProcessLookupError:
                pass
            try:
                self.process.wait(STOP_TIMEOUT_S)
                return
            except subprocess.TimeoutExpired:
                continue


class OneProcess:
    """A server that is one process on one port: `self.port` is chosen and `_run` called by the server's own `__enter__`."""

    def __init__(self, directory, host=LOOPBACK):
        self.directory = os.path.abspath(directory)
        self.host = host
        self.port = 0
        self.server = None

    def _run(self, argv, log_path):
        """Start it, and return when it accepts connections."""
        self.server = Server(argv, log_path, self.host)
        try:
            self.server.wait_for_port(self.port)
        except BaseException:
            self.server.stop()
            raise
        return self

    def __exit__(self, *_):
        self.server.stop()


class FileServer(OneProcess):
    """The same over the files in `root` (or `directory`/files); `directory` keeps its configuration and log."""

    def __init__(self, directory, host=LOOPBACK, root=None):
        super().__init__(directory, host)
        self.root = os.path.abspath(root) if root else os.path.join(self.directory, "files")


def accepts(port):
    """Whether a connection to 127.0.0.1:`port` is accepted."""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0
