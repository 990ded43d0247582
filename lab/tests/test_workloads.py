"""Runs each workload briefly: it moves every byte, says how much of its fault it had, and fails when the data is wrong."""

import filecmp
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from testbed.paths import PROGRAMS, REPOSITORY  # noqa: E402
from testbed.processes import free_port  # noqa: E402

SIZE = 5_000_123
SLOW_SERVER = os.path.join(REPOSITORY, "lab", "scripts", "slow", "serve.py")


def setUpModule():
    if shutil.which("make") is None:
        raise unittest.SkipTest("there is no make to build the lab's programs with")
    subprocess.run(["make", "-s", "-C", os.path.join(REPOSITORY, "lab")], check=True)


def command(program, *arguments):
    return [os.path.join(PROGRAMS, program), *map(str, arguments)]


def run(program, *arguments):
    """The result of a workload that is to succeed."""
    done = subprocess.run(command(program, *arguments), capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        raise AssertionError(f"{program} {arguments}: {done.returncode} {done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


class Running:
    """A workload that says `ready` and runs until it is told to end; `result` is what it printed then."""

    def __init__(self, program, *arguments):
        self.process = subprocess.Popen(command(program, *arguments), stdout=subprocess.PIPE, text=True)
        self.ready = self.process.stdout.readline().split()
        self.result = None

    def __enter__(self):
        if self.ready[:1] != ["ready"]:
            raise AssertionError(f"{self.process.args} said {self.ready}")
        return self

    def end(self, with_signal=signal.SIGTERM):
        if with_signal:
            self.process.send_signal(with_signal)
        self.result = json.loads(self.process.stdout.read().splitlines()[-1])
        return self.process.wait(timeout=30)

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.stdout.close()
        self.process.wait()


class Workload(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="workloads-")
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.source, self.sink = self.path("source"), self.path("sink")
        with open(self.source, "wb") as out:
            out.write(os.urandom(SIZE))

    def path(self, name):
        return os.path.join(self.directory, name)

    def same(self):
        self.assertTrue(filecmp.cmp(self.source, self.sink, shallow=False), "the sink is not the source")

    def state(self, pid):
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0]

    def wait_for(self, what, condition):
        until = time.monotonic() + 20
        while not condition():
            self.assertLess(time.monotonic(), until, what)
            time.sleep(0.002)


class Copy(Workload):
    def test_every_way_of_moving_bytes_moves_all_of_them(self):
        ways = [["--how", how] for how in ("read", "mmap", "mmap-both", "sendfile", "splice", "copy_file_range")]
        ways += [["--threads", 3], ["--readers", 2], ["--direct-source"], ["--direct-sink"]]
        for way in ways:
            with self.subTest(way=way):
                if os.path.exists(self.sink):
                    os.unlink(self.sink)
                result = run("copy", self.source, self.sink, "--block", "64Ki", "--verify", *way)
                self.assertEqual(result["bytes"], SIZE)
                self.same()

    def test_each_fault_has_the_size_it_was_given(self):
        blocks = -(-SIZE // (1 << 20))
        for fault, kind, each_s in [("--sleep-between", "sleep", 0.005), ("--spin", "spin", 0.005), ("--lock-hold", "lock", 0.01),
                                    ("--lock-spin", "lock", 0.01)]:
            with self.subTest(fault=fault):
                injected = run("copy", self.source, self.sink, fault, f"{each_s}s")["injected_s"]
                self.assertEqual(injected[f"{kind}_times"], blocks)
                # The other thread may be on its way to its sleep when the waiting begins; it is never early by more than that.
                self.assertGreater(injected[kind], 0.8 * blocks * each_s)
        injected = run("copy", self.source, self.sink, "--sync-every", "2Mi", "--sync")["injected_s"]
        self.assertEqual(injected["sync_times"], 3)

    def test_a_pipe_is_polled(self):
        fifo = self.path("fifo")
        os.mkfifo(fifo)
        reader = subprocess.Popen(command("copy", fifo, self.sink, "--poll", "3ms"), stdout=subprocess.PIPE, text=True)
        with open(fifo, "wb") as pipe, open(self.source, "rb") as source:
            pipe.write(source.read(1000))
            pipe.flush()
            self.wait_for("copy sleeps", lambda: self.state(reader.pid) == "S")
            pipe.write(source.read())
        result = json.loads(reader.communicate(timeout=30)[0])
        self.assertGreater(result["injected_s"]["poll_times"], 0)
        self.same()

    def test_another_process_holds_the_lock(self):
        lock = self.path("lock")
        with Running("lockholder", lock, "--hold", "10ms") as holder:
            result = run("copy", self.source, self.sink, "--flock", lock)
            self.assertEqual(holder.end(), 0)
        self.assertGreater(result["injected_s"]["lock"], 0.0)
        self.assertGreater(holder.result["holds"], 0)
        self.same()

    def test_who_wants_a_mutex_waits_as_long_as_its_holder_works(self):
        for ways in (["sleep"], ["compute"]):
            injected = run("guarded", "--times", 5, "--hold", *ways, "--for", "10ms")["injected_s"]
            self.assertEqual(injected["lock_times"], 5)
            self.assertGreater(injected["lock"], 0.8 * 5 * 0.01)
        self.assertEqual(run("guarded", "--times", 3, "--hold", "sync", "--path", self.sink)["injected_s"]["lock_times"], 3)
        self.assertEqual(os.path.getsize(self.sink), 3 * 4096)

    def test_of_two_threads_in_rounds_one_computes(self):
        injected = run("rounds", "--rounds", 4, "--compute", "5ms")["injected_s"]
        self.assertEqual(injected["spin_times"], 4)
        self.assertGreater(injected["spin"], 0.02 * 0.9)

    def test_a_full_disk_and_a_missing_source_are_errors(self):
        for source, sink, what in [(self.source, "/dev/full", "No space"), (self.path("none"), self.sink, "none")]:
            done = subprocess.run(command("copy", source, sink), capture_output=True, text=True)
            self.assertEqual(done.returncode, 1)
            self.assertIn(what, done.stderr)
        self.assertEqual(subprocess.run(command("copy", "--block", "1MB", "a", "b"), capture_output=True).returncode, 2)


class Async(Workload):
    def test_both_engines_bring_every_byte(self):
        for engine, more in [("io_uring", []), ("io_uring", ["--direct"]), ("io_uring", ["--sqpoll"]), ("io_uring", ["--depth", 1]),
                             ("libaio", ["--direct"]), ("libaio", ["--spin-wait"])]:
            with self.subTest(engine=engine, more=more):
                try:
                    result = run("async", self.source, self.sink, "--engine", engine, "--verify", *more)
                except AssertionError as error:
                    if "not permitted" in str(error) or "not implemented" in str(error):
                        self.skipTest(f"{engine} is not allowed here")
                    raise
                self.assertEqual(result["bytes"], SIZE)
                self.same()
                run("async", self.source, "--engine", engine, *more)


class Transfer(Workload):
    def test_bytes_go_both_ways_over_several_streams(self):
        for options in [[], ["--streams", 3], ["--request-reply", "100Ki"], ["--sendfile"], ["--streams", 2, "--sndbuf", "32Ki"]]:
            with self.subTest(options=options), Running("transfer", "serve", "--sink", f"file:{self.sink}", "--rcvbuf", "64Ki") as server:
                self.assertEqual(run("transfer", "send", *server.ready[1:], "--source", self.source, *options)["bytes"], SIZE)
                self.assertEqual(server.end(), 0)
                self.assertEqual(server.result["bytes"], SIZE)
                self.same()
                os.unlink(self.sink)
        with Running("transfer", "serve", "--source", self.source, "--sessions", 2, "--address", "::1") as server:
            run("transfer", "receive", *server.ready[1:], "--size", SIZE, "--streams", 2, "--sink", f"file:{self.sink}")
            self.assertEqual(server.end(with_signal=None), 0)
            self.same()

    def test_each_fault_has_the_size_it_was_given(self):
        serving = ["serve", "--slow-read", "3ms", "--sink", f"fsync:{self.sink}", "--reply-delay", "2ms", "--block", "1Mi"]
        with Running("transfer", *serving) as server:
            options = ["--size", "8Mi", "--block", "1Mi", "--sleep-between", "4ms", "--request-reply", "2Mi"]
            sender = run("transfer", "send", *server.ready[1:], *options)["injected_s"]
            server.end()
        self.assertEqual((sender["sleep_times"], server.result["injected_s"]["sleep_times"]), (8, 8 + 4))
        self.assertGreaterEqual(sender["sleep"], 8 * 0.004)
        self.assertGreaterEqual(server.result["injected_s"]["sleep"], 8 * 0.003 + 4 * 0.002)
        self.assertEqual(server.result["injected_s"]["sync_times"], 8)

    def test_a_receiver_polls(self):
        with Running("transfer", "serve", "--sleep-between", "5ms", "--block", "64Ki") as server:
            receiver = run("transfer", "receive", *server.ready[1:], "--size", "512Ki", "--poll", "1ms")["injected_s"]
            self.assertGreater(receiver["poll_times"], 8)

    def test_a_peer_that_dies_is_an_error(self):
        with Running("transfer", "serve", "--slow-read", "1s") as server:
            arguments = command("transfer", "send", *server.ready[1:], "--size", "64Mi")
            sender = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.wait_for("the sender waits", lambda: self.state(sender.pid) == "S")
            server.process.kill()
            _, error = sender.communicate(timeout=30)
        self.assertEqual(sender.returncode, 1)
        self.assertIn("transfer: ", error)


class Awkward(Workload):
    def test_children_threads_and_connections_come_and_go(self):
        self.assertEqual(run("awkward", "processes", "--count", 200)["bytes"], 200 * 4096)
        self.assertEqual(run("awkward", "threads", "--count", 100)["bytes"], 100 * 4096)
        self.assertEqual(run("awkward", "connections", "--count", 300)["bytes"], 600)

    def test_a_child_outlives_its_parent(self):
        started = time.monotonic()
        lasts = f"20.{os.getpid()}s"  # Nobody else's, so that it is known again.
        parent = subprocess.Popen(command("awkward", "orphan", "--for", lasts), stdout=subprocess.PIPE)
        parent.communicate(timeout=15)
        self.assertEqual(parent.returncode, 0)
        self.assertLess(time.monotonic() - started, 15)
        children = [pid for pid in filter(str.isdigit, os.listdir("/proc")) if self.is_orphan(pid, lasts)]
        self.assertEqual(len(children), 1)
        os.kill(int(children[0]), signal.SIGKILL)

    def is_orphan(self, pid, lasts):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as arguments:
                return arguments.read().split(b"\0")[1:4] == [b"orphan", b"--for", lasts.encode()]
        except OSError:
            return False

    def test_it_ends_as_it_says(self):
        self.assertEqual(subprocess.run(command("awkward", "closes", "--for", "20ms"), timeout=15).returncode, 0)
        self.assertEqual(subprocess.run(command("awkward", "dies", "--signal", 9), timeout=15).returncode, -9)
        copied = subprocess.run(command("awkward", "execs", "--file", self.source), stdout=subprocess.PIPE, timeout=15)
        with open(self.source, "rb") as source:
            self.assertEqual(copied.stdout, source.read())

    @unittest.skipIf(os.geteuid() != 0, "choosing a process number needs root")
    def test_a_process_number_is_used_again(self):
        self.assertEqual(run("awkward", "same-pid")["bytes"], 2 * 4096)


class Small(Workload):
    def test_files_and_bytes_are_as_many_as_asked(self):
        directory = self.path("files")
        self.assertEqual(run("small", "files", directory, "--count", 3, "--size", "1Ki")["injected_s"]["sync_times"], 3)
        self.assertEqual([os.path.getsize(os.path.join(directory, name)) for name in sorted(os.listdir(directory))], [1024] * 3)
        self.assertEqual(run("small", "writes", self.sink, "--size", 1000, "--block", 7)["bytes"], 1000)
        self.assertEqual(os.path.getsize(self.sink), 1000)

    def test_every_way_of_waiting_gets_every_answer(self):
        # The laboratory's own server: in its own process, no other test can close its connections.
        port = free_port()
        server = subprocess.Popen([sys.executable, SLOW_SERVER, "echo", str(port)], stdout=subprocess.PIPE, text=True)
        try:
            self.assertEqual(server.stdout.readline(), "ready\n")
            for way in ("poll", "again", "flag"):
                for more in ([], ["--asleep"]):
                    self.assertEqual(run("spins", way, port, "--times", 5, *more)["bytes"], 5)
        finally:
            server.kill()
            server.communicate()


class Neighbours(Workload):
    def test_a_hog_computes_where_and_as_much_as_it_was_told(self):
        with Running("hog", "--cpu", 0, "--duty", 50, "--threads", 2) as hog:
            with open(f"/proc/{hog.process.pid}/status") as status:
                self.assertIn("Cpus_allowed_list:\t0\n", status.read())
            self.wait_for("it computes", lambda: len(os.listdir(f"/proc/{hog.process.pid}/task")) == 3)
            self.assertEqual(hog.end(), 0)
        injected = run("hog", "--for", "200ms", "--duty", 20)["injected_s"]
        self.assertGreater(injected["sleep"], injected["spin"])

    def test_a_stopped_process_goes_on_whatever_becomes_of_the_stopper(self):
        sleeper = subprocess.Popen(["sleep", "60"])
        self.addCleanup(sleeper.wait)
        self.addCleanup(sleeper.kill)
        result = run("stopper", sleeper.pid, "--for", "30ms", "--every", "60ms", "--times", 2)
        self.assertEqual(result["stops"], 2)
        self.assertGreaterEqual(result["stopped_s"], 0.06)
        with Running("stopper", sleeper.pid, "--for", "60s") as stopper:
            self.wait_for("it is stopped", lambda: self.state(sleeper.pid) == "T")
            self.assertEqual(stopper.end(), 0)
        self.wait_for("it runs again", lambda: self.state(sleeper.pid) == "S")

