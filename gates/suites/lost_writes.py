"""Lost writes: programs write while their disk fills and empties, and the I/O server is killed and started again.

The store has its bytes on a small disk in memory, behind a server of its own. What fails may fail; what was synced or committed has to
be there, for whoever reads it, and nobody may read something else than what was written. A child that ends with a copy of the
descriptor must not take the error away from the program that wrote.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import time

from gates.harness import workers
from gates.harness.case import attempt
from testbed.errors import Broken, NotRun
from testbed.processes import Process
from testbed.store import Mount, Store

TITLE = "full disks and killed servers under programs that fork"
SHORT_S = 24
ORDER = 45

DISK = "4m"
SERVERS = ("metadata", "io0", "io1")
END_S = 40.0
COMMAND_S = 20.0


def cases(fixture):
    """One case for each kind of program."""
    seconds = 4.0 if fixture.short else 40.0
    yield attempt("thalweg cat and cp of a file that lost bytes", _commands, fixture)
    for what, title in (("files", "files of a program that forks"), ("sqlite", "SQLite"), ("git", "git")):
        yield attempt(f"{title}: the disk fills, the server is killed", _case, fixture, what, seconds)


def _commands(fixture):
    _check(fixture)
    with SmallStore(fixture) as store:
        content = fixture.random.randbytes(300_000)
        path = os.path.join(store.views[0], "f")
        store.fill()
        fd = os.open(path, os.O_RDWR | os.O_CREAT)
        try:
            os.pwrite(fd, content, 0)
            os.system("true")
            os.fsync(fd)
        except OSError:
            pass
        else:
            raise Broken("fsync succeeded on a full disk")
        finally:
            try:
                os.close(fd)
            except OSError:
                pass
        store.empty()
        url = f"{store.address}/f"
        for words in (["cat", url], ["cp", url, os.path.join(fixture.scratch, "out")], ["cp", "-r", f"{store.address}/", os.path.join(fixture.scratch, "tree")]):
            done = fixture.run([store.program, *words], COMMAND_S)
            if done.code == 0 or "lost" not in done.output:
                raise Broken(f"thalweg {words[0]} of a file that lost bytes: exit code {done.code}: {done.last_lines()}")
        if (size := os.stat(os.path.join(store.views[1], "f")).st_size) != len(content):
            raise Broken(f"a file that lost bytes has {size} bytes, not {len(content)}")
        os.truncate(os.path.join(store.views[1], "f"), len(content))
        done = fixture.run([store.program, "cp", url, os.path.join(fixture.scratch, "accepted")], COMMAND_S)
        if done.code != 0:
            raise Broken(f"thalweg cp of what was accepted: {done.last_lines()}")


def _check(fixture):
    if not fixture.filesystem.is_store:
        raise NotRun("a directory has no servers to kill")
    if os.geteuid() != 0:
        raise NotRun("only root can mount a small disk")


def _case(fixture, what, seconds):
    _check(fixture)
    with SmallStore(fixture) as store:
        argv = [fixture.worker("lost_writer.py"), what, *store.views, str(fixture.random.randrange(1 << 30))]
        log = os.path.join(fixture.scratch, f"{what}.log")
        worker = workers.start(argv, log, stdin=subprocess.PIPE)
        try:
            deadline = time.monotonic() + seconds
            while time.monotonic() < deadline and worker.is_running:
                _trouble(fixture, store)
            worker.process.stdin.close()
            code = worker.process.wait(END_S)
        except subprocess.TimeoutExpired:
            raise Broken(f"it goes on {END_S:.0f} s after everything works again") from None
        finally:
            worker.kill(store.give_up)
        if code != 0:
            raise Broken(worker.last_line())
        return int(worker.last_line().split()[-1])


def _trouble(fixture, store):
    """A full disk, a server that is killed, or both; afterwards everything works."""
    pause = fixture.random.uniform
    kinds = fixture.random.choice([(True, False), (False, True), (True, True), (True, False)])
    if kinds[0]:
        store.fill()
        time.sleep(pause(0.1, 0.9))
    if kinds[1]:
        store.kill()
        time.sleep(pause(0.0, 0.3))
        store.start("io1")
    time.sleep(pause(0.0, 0.5))
    store.empty()
    time.sleep(pause(0.2, 0.6))


class SmallStore:
    """A store whose files are all on one small disk, and two mounts of it. Entered, it is there; left, nothing is, however that was."""

    def __init__(self, fixture):
        self.fixture = fixture
        self.directory = tempfile.mkdtemp(prefix="gate-lost-")
        self.program = fixture.filesystem.program
        self.disk = self._in("small")
        self.address = self.configuration = None
        self.processes, self.mounts = {}, []

    def _in(self, name):
        return os.path.join(self.directory, name)

    def __enter__(self):
        try:
            self._begin()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _begin(self):
        os.mkdir(self.disk)
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", self.disk], capture_output=True, timeout=10, check=False)
        if mounted.returncode != 0:
            raise NotRun("a small disk cannot be mounted here")
        base = self._in("base")
        with Store(self.program, [base, os.path.join(self.disk, "target")], self._in("up.log")) as made:
            self.address = made.address
        self.configuration = os.path.join(base, "store.toml")
        for server in SERVERS:
            self.start(server)
        flags = ["--layout", "basic_dist", "--place", "targets:1", "--timeout", "5s", *self.fixture.filesystem.flags]
        for name in ("here", "there"):
            self.mounts.append(Mount(self.program, self.address, self._in(name), self._in(f"{name}.log"), flags))

    @property
    def views(self):
        """The same directory, from both mounts."""
        return [mount.path for mount in self.mounts]

    def start(self, server):
        """Start a server where it was."""
        log = self._in(f"{server}-{len(self.processes)}-{time.monotonic_ns()}.log")
        process = Process([self.program, "serve", "--store", self.configuration, "--name", server], log)
        self.processes[server] = process
        process.wait_until(server, lambda: f"{server} " in process.output(), Broken)

    def kill(self):
        """The server with the files dies, from one moment to the next."""
        self.processes["io1"].signal(signal.SIGKILL)
        self.processes["io1"].process.wait(10)

    def fill(self):
        """Take all the space there is left."""
        with open(os.path.join(self.disk, "ballast"), "ab", buffering=0) as ballast:
            for size in (1 << 20, 4096, 1):
                try:
                    while ballast.write(bytes(size)):
                        pass
                except OSError:
                    pass

    def empty(self):
        """Give it back."""
        if os.path.exists(os.path.join(self.disk, "ballast")):
            os.truncate(os.path.join(self.disk, "ballast"), 0)

    def give_up(self):
        """End the mounts at once."""
        for mount in self.mounts:
            mount.end()

    def __exit__(self, *_):
        self.give_up()
        for process in self.processes.values():
            process.kill()
        subprocess.run(["umount", "-l", self.disk], capture_output=True, timeout=10, check=False)
        shutil.rmtree(self.directory, ignore_errors=True)
