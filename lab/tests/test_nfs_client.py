"""The NFS client against NFS-Ganesha, through a proxy that sees every call and can hold replies back.

Needs root, NFS-Ganesha and libnfs; else everything is skipped.
"""

import filecmp
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import unittest
from collections import Counter

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from testbed.errors import NotRun  # noqa: E402
from testbed.paths import PROGRAMS, REPOSITORY  # noqa: E402
from testbed.servers import SERVERS  # noqa: E402

CLIENT = os.path.join(PROGRAMS, "nfs-client")
LAST = 0x80000000
WRITE, COMMIT = 7, 21


class Proxy:
    """Passes records between clients and a server. Knows each call's connection, xid and procedure in the order of their coming."""

    def __init__(self, port, fragments=1, hold_after=None, hold_for=0.0):
        self.server_port, self.fragments = port, fragments
        self.hold_after, self.hold_for = hold_after, hold_for
        self.calls, self.lock = [], threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]

    def __enter__(self):
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.listener.close()

    def _accept(self):
        try:
            while True:
                client, _ = self.listener.accept()
                server = socket.create_connection(("127.0.0.1", self.server_port))
                threading.Thread(target=self._calls, args=(client, server), daemon=True).start()
                threading.Thread(target=self._replies, args=(server, client), daemon=True).start()
        except OSError:
            pass

    def _records(self, connection):
        stream = connection.makefile("rb")
        while True:
            body, mark = b"", 0
            while not mark & LAST:
                header = stream.read(4)
                if len(header) < 4:
                    return
                (mark,) = struct.unpack(">I", header)
                body += stream.read(mark & ~LAST)
            yield body

    def _calls(self, client, server):
        try:
            for record in self._records(client):
                xid, procedure = struct.unpack(">I16xI", record[:24])
                with self.lock:
                    self.calls.append((id(client), xid, procedure))
                server.sendall(struct.pack(">I", LAST | len(record)) + record)
        except OSError:
            pass
        finally:
            server.close()

    def _replies(self, server, client):
        held = False
        try:
            for number, record in enumerate(self._records(server)):
                if number == self.hold_after and not held:
                    held = True
                    threading.Event().wait(self.hold_for)
                size = -(-len(record) // self.fragments)
                parts = [record[at : at + size] for at in range(0, len(record), size)]
                for part in parts:
                    client.sendall(struct.pack(">I", (LAST if part is parts[-1] else 0) | len(part)) + part)
        except OSError:
            pass
        finally:
            client.close()

    def of(self, procedure):
        """The xids of all calls of a procedure, with how often each was sent."""
        return Counter((connection, xid) for connection, xid, called in self.calls if called == procedure)


class Client(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.mkdtemp(prefix="nfs-client-")
        cls.addClassCleanup(shutil.rmtree, cls.directory, ignore_errors=True)
        if shutil.which("make"):
            subprocess.run(["make", "-s", "-C", os.path.join(REPOSITORY, "lab")], check=True)
        if not os.access(CLIENT, os.X_OK):
            raise unittest.SkipTest("nfs-client is not built: it needs make and libnfs-dev")
        try:
            cls.server = SERVERS["nfs"](cls.directory).__enter__()
        except NotRun as reason:
            raise unittest.SkipTest(str(reason)) from None
        cls.addClassCleanup(cls.server.__exit__)
        cls.source = os.path.join(cls.directory, "source")
        with open(cls.source, "wb") as out:
            out.write(os.urandom(3_000_123))

    def exported(self, name):
        return os.path.join(self.server.root, name)

    def url(self, name, port=None):
        return f"nfs://127.0.0.1{self.exported(name)}?version=3&nfsport={port or self.server.port}&mountport={self.server.mount_port}"

    def run_client(self, *arguments):
        done = subprocess.run([CLIENT, *map(str, arguments)], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def fails(self, *arguments):
        done = subprocess.run([CLIENT, *map(str, arguments)], capture_output=True, text=True, timeout=60)
        self.assertNotEqual(done.returncode, 0)
        return done.stderr

    def test_every_byte_is_written_and_read_back(self):
        sink = os.path.join(self.directory, "sink")
        for number, options in enumerate([[], ["--depth", 1], ["--block", "100Ki", "--depth", 32], ["--stable", "filesync"], ["--stable", "datasync"],
                                          ["--window", 2], ["--commit-every", "1Mi"], ["--sndbuf", "16Ki", "--rcvbuf", "16Ki"]]):
            with self.subTest(options=options):
                name = f"bytes-{number}"
                result = self.run_client("write", self.url(name), "--read-source", self.source, *options)
                self.assertEqual((result["bytes"], result["calls"]), (3_000_123, result["replies"]))
                self.assertTrue(filecmp.cmp(self.source, self.exported(name), shallow=False), "written")
                self.run_client("read", self.url(name), "--sink", sink, *options)
                self.assertTrue(filecmp.cmp(self.source, sink, shallow=False), "read")

    def test_pages_in_the_wrong_place_are_seen(self):
        self.run_client("write", self.url("pattern"), "--size", "4Mi")
        self.run_client("read", self.url("pattern"), "--pattern")
        with open(self.exported("pattern"), "r+b") as file:
            file.seek(1 << 20)
            file.write(b"wrong")
        self.assertIn("1048576", self.fails("read", self.url("pattern"), "--pattern"))

    def test_the_window_and_the_depth_bound_what_is_pending(self):
        for options, most in [(["--depth", 16, "--window", 4, "--window-max", 4], 4), (["--depth", 3], 3), (["--depth", 3, "--window", 8], 3)]:
            with self.subTest(options=options):
                # Nothing is answered for a while: as many calls as may be are pending then, however fast the server is.
                with Proxy(self.server.port, hold_after=10, hold_for=0.3) as proxy:
                    url = self.url(f"window-{most}-{len(options)}", proxy.port)
                    result = self.run_client("write", url, "--size", "4Mi", "--block", "64Ki", *options)
                self.assertEqual(result["pending_max"], most)

    def test_a_window_that_is_full_grows(self):
        # Nothing is answered for a while, so that calls are always waiting for the window.
        with Proxy(self.server.port, hold_after=10, hold_for=0.3) as proxy:
            options = ["--size", "16Mi", "--block", "128Ki", "--depth", 64, "--window", 1, "--sample", "1ms"]
            result = self.run_client("write", self.url("grows", proxy.port), *options)
        window = result["series"]["window"]
        self.assertGreater(max(window[:-1]), 8)
        self.assertEqual(window[:-1], sorted(window[:-1]), "nothing timed out")

    def test_each_drain_cycle_ends_with_one_commit(self):
        with Proxy(self.server.port) as proxy:
            options = ["--size", "6Mi", "--block", "256Ki", "--commit-every", "1Mi"]
            result = self.run_client("write", self.url("drains", proxy.port), *options)
        self.assertEqual(result["drains"]["cycles"], 6)
        self.assertEqual(result["procedures"]["COMMIT"]["replies"], 6)
        order = [procedure for _, _, procedure in proxy.calls if procedure in (WRITE, COMMIT)]
        self.assertEqual(order, ([WRITE] * 4 + [COMMIT]) * 6)

    def test_calls_that_time_out_are_sent_again_with_their_xid_and_the_window_collapses(self):
        with Proxy(self.server.port, hold_after=20, hold_for=1.0) as proxy:
            options = ["--size", "4Mi", "--block", "32Ki", "--depth", 32, "--window", 16, "--timeout", "100ms", "--retransmit", "--sample", "10ms"]
            result = self.run_client("write", self.url("again", proxy.port), *options)
        self.assertGreaterEqual(result["timeouts"], 2)
        self.assertGreaterEqual(result["retransmissions"], 2)
        sent = proxy.of(WRITE)
        self.assertEqual(len(sent), 4 * 32, "as many xids as blocks")
        self.assertEqual(sum(sent.values()) - len(sent), result["retransmissions"])
        self.assertEqual(min(result["series"]["window"]), 1)
        self.run_client("read", self.url("again"), "--pattern")

    def test_without_retransmission_timeouts_only_count(self):
        with Proxy(self.server.port, hold_after=20, hold_for=0.5) as proxy:
            result = self.run_client("write", self.url("counts", proxy.port), "--size", "2Mi", "--block", "32Ki", "--timeout", "100ms")
        self.assertGreater(result["timeouts"], 0)
        self.assertEqual((result["retransmissions"], result["duplicate_replies"]), (0, 0))
        self.assertEqual(set(proxy.of(WRITE).values()), {1})

    def test_replies_in_fragments_are_put_together(self):
        self.run_client("write", self.url("fragments"), "--size", "3Mi")
        for fragments in (2, 7):
            with self.subTest(fragments=fragments), Proxy(self.server.port, fragments=fragments) as proxy:
                result = self.run_client("read", self.url("fragments", proxy.port), "--pattern", "--block", "256Ki")
                self.assertEqual(result["bytes"], 3 << 20)

    def test_a_walk_sees_every_file_in_each_way(self):
        tree = self.exported("tree")
        for directory in ("", "one", "one/two"):
            os.makedirs(os.path.join(tree, directory), exist_ok=True)
            for number in range(300):
                with open(os.path.join(tree, directory, f"a-rather-long-name-of-a-small-file-{number:05}"), "w") as file:
                    file.write("x" * number)
        for how in ("lookup+getattr", "lookup", "readdirplus"):
            for depth in (1, 8):
                with self.subTest(how=how, depth=depth):
                    result = self.run_client("walk", self.url("tree"), "--how", how, "--depth", depth)
                    self.assertEqual((result["files"], result["directories"], result["file_bytes"]), (900, 2, 3 * 300 * 299 // 2))
                    self.assertLessEqual(result["pending_max"], depth)
                    if how != "readdirplus":
                        self.assertEqual(result["procedures"]["LOOKUP"]["replies"], 902)

    def test_thinking_and_pausing_are_reported(self):
        result = self.run_client("write", self.url("thinks"), "--size", "2Mi", "--block", "256Ki", "--think", "5ms", "--pause", "1Mi+100ms")
        self.assertAlmostEqual(result["injected_s"]["sleep"], 9 * 0.005 + 0.1, places=5, msg="eight writes and a commit")
        self.assertGreater(result["seconds"], 7 * 0.005 + 0.1)

    def test_errors_say_what_is_wrong(self):
        self.assertIn("NOENT", self.fails("read", self.url("nowhere")))
        self.assertIn("--size", self.fails("write", self.url("nothing")))
        self.assertIn("--block", self.fails("write", self.url("large"), "--size", "64Mi", "--block", "32Mi"))
        self.assertIn("--help", self.fails("wander", self.url("x")))
        self.assertIn("--stable", self.fails("write", self.url("x"), "--size", 1, "--stable", "maybe"))
