"""What the testbed promises to lab, bench and gates."""

import functools
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from testbed import files, hosts, packages, paths, processes, scratch, shell, units  # noqa: E402
from testbed.errors import Broken, NotRun  # noqa: E402
from testbed.servers import SERVERS  # noqa: E402


class ScratchDirectories(unittest.TestCase):
    def test_only_what_was_made_by_one_that_is_gone_is_taken_for_left_behind(self):
        with tempfile.TemporaryDirectory() as base:
            made, mine, link = (os.path.join(base, name) for name in ("thalweg-lab-4194303", "thalweg-lab-4194302", "thalweg-lab-4194301"))
            held = scratch.mark(made, "thalweg-lab")
            os.mkdir(mine)
            os.symlink(made, link)
            self.assertFalse(scratch.is_abandoned(made, "thalweg-lab"), "its maker lives")
            held.close()
            self.assertTrue(scratch.is_abandoned(made, "thalweg-lab"))
            self.assertFalse(scratch.is_abandoned(made, "another kind"))
            for other in (mine, link, os.path.join(base, "nowhere")):
                self.assertFalse(scratch.is_abandoned(other, "thalweg-lab"), other)
            with open(os.path.join(mine, scratch.MARKER), "w") as out:
                out.write("mine\n")
            self.assertFalse(scratch.is_abandoned(mine, "thalweg-lab"), "its marker says otherwise")


class Clocks(unittest.TestCase):
    def test_a_host_ahead_has_another_clock_and_boot_and_leaves_this_machine_its_own(self):
        here = shell.read(hosts.BOOT_ID)
        with tempfile.TemporaryDirectory() as directory:
            boot = os.path.join(directory, "boot")
            shell.write(boot, "another\n")
            try:
                there = hosts.LOOPBACK.ahead(5000, boot)
            except NotRun as reason:
                self.skipTest(str(reason))
            told = shell.run(*there.inside(["cat", "/proc/uptime", hosts.BOOT_ID])).split()
        self.assertGreaterEqual(float(told[0]), 5000 + float(shell.read("/proc/uptime").split()[0]) - 60)
        self.assertEqual((told[2], shell.read(hosts.BOOT_ID)), ("another", here))
        self.assertEqual(hosts.LOOPBACK.inside(["true"]), ["true"])


class Files(unittest.TestCase):
    def test_equal_files_are_equal_and_one_byte_is_noticed(self):
        with tempfile.TemporaryDirectory() as directory:
            one = files.make_source(os.path.join(directory, "one"), 3 << 20)
            other = os.path.join(directory, "other")
            with open(one, "rb") as source, open(other, "wb") as copy:
                copy.write(source.read())
            self.assertTrue(files.same_bytes(one, other))
            with open(other, "r+b") as copy:
                copy.seek(2 << 20)
                byte = copy.read(1)
                copy.seek(2 << 20)
                copy.write(bytes([byte[0] ^ 1]))
            self.assertFalse(files.same_bytes(one, other))

    def test_a_file_dropped_from_the_page_cache_is_seen_to_be_gone_and_comes_back(self):
        with tempfile.TemporaryDirectory() as directory:
            path = files.make_source(os.path.join(directory, "one"), 4 << 20)
            if files.cached_share([path]) is None:
                self.skipTest("the kernel has no cachestat")
            descriptor = os.open(path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)
            if files.cached_share([path]) > 0:
                self.skipTest("the file system keeps its pages")
            self.assertEqual(files.warm([path]), 1.0)


class Revisions(unittest.TestCase):
    def test_a_build_is_of_the_last_revision_of_its_sources_however_often_results_are_committed(self):
        with tempfile.TemporaryDirectory() as repository:
            git = lambda *words: subprocess.run(["git", "-C", repository, *words], check=True, capture_output=True, text=True).stdout.strip()  # noqa: E731

            def write(path, text):
                os.makedirs(os.path.dirname(os.path.join(repository, path)), exist_ok=True)
                with open(os.path.join(repository, path), "w") as sink:
                    sink.write(text)

            def commit(path, text):
                write(path, text)
                git("add", path)
                git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "x")
                return git("rev-parse", "--short=8", "HEAD")

            git("init", "-q")
            self.assertEqual(paths.revision(repository), "unknown")
            built = commit("crates/a.rs", "1")
            self.assertNotEqual(commit("bench/results.jsonl", "{}"), built)
            write("docs/results/BENCH.md", "page")
            self.assertEqual(paths.revision(repository), built)
            write("crates/a.rs", "2")
            self.assertEqual(paths.revision(repository), f"{built}-dirty")


class Units(unittest.TestCase):
    def test_sizes_times_and_rates_are_read_and_nonsense_is_refused(self):
        self.assertEqual(units.size_bytes("64Mi"), 64 << 20)
        self.assertEqual(units.seconds("2500us"), 0.0025)
        self.assertEqual(units.bits_per_s("400Mbit"), 4e8)
        with self.assertRaises(ValueError):
            units.size_bytes("64MB")


class Processes(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.log = os.path.join(directory.name, "log")

    def test_a_program_that_is_too_slow_is_ended_with_what_it_forked(self):
        done = processes.run(["sh", "-c", "echo begun; sleep 1000 & wait"], self.log, 0.2)
        self.assertIsNone(done.code)
        self.assertEqual(done.last_lines(1), "begun")

    def test_a_process_is_waited_for_until_it_is_ready_and_stopped_with_its_group(self):
        process = processes.Process(["sh", "-c", "sleep 1000 & echo ready; wait"], self.log)
        process.wait_for_word("the shell")
        self.assertEqual(len(process.group()), 2)
        process.stop()
        self.assertEqual(process.process.returncode, -signal.SIGTERM)
        deadline = time.monotonic() + 10
        while process.group() and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertEqual(process.group(), [])

    def test_one_that_ends_before_it_is_ready_says_its_last_words(self):
        process = processes.Process(["sh", "-c", "echo no such star; exit 3"], self.log)
        with self.assertRaisesRegex(Broken, "code 3: no such star"):
            process.wait_for_word("the shell", failure=Broken)

    def test_a_command_that_is_missing_is_a_reason_not_to_run_and_one_that_fails_is_what_the_caller_says(self):
        with self.assertRaisesRegex(NotRun, "there is no no-such-command"):
            shell.run("no-such-command")
        with self.assertRaisesRegex(Broken, "exit code 7: last words"):
            shell.run("sh", "-c", "echo last words >&2; exit 7", failure=Broken)


class Mounts(unittest.TestCase):
    def test_mount_points_are_read_without_asking_a_file_system(self):
        self.assertIn("/", shell.mount_points())
        self.assertEqual(shell.mount_of("/proc/self")[1], "proc")


class Servers(unittest.TestCase):
    def answers_and_is_gone_afterwards(self, server):
        if packages.missing(server.packages):
            self.skipTest("it is not installed")
        if not server.is_built():
            self.skipTest("it is not built")
        with tempfile.TemporaryDirectory() as directory:
            try:
                with server(directory) as started:
                    port = started.port
                    self.assertTrue(accepts(port))
            except NotRun as reason:
                self.skipTest(str(reason))
        # A child that served the connection above has the listening socket until it ends, too.
        until = time.monotonic() + 10
        while accepts(port) and time.monotonic() < until:
            time.sleep(0.05)
        self.assertFalse(accepts(port))


for name, kind in SERVERS.items():
    test = functools.partialmethod(Servers.answers_and_is_gone_afterwards, kind)
    setattr(Servers, f"test_{name}_answers_on_loopback_and_is_gone_afterwards", test)


def accepts(port):
    """Whether a connection to 127.0.0.1:`port` is accepted."""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0
