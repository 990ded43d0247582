"""Recordings that a web server has."""

import contextlib
import functools
import http.server
import socket
import tempfile
import threading
import unittest
from pathlib import Path

import thalweg

from . import recordings


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves a directory; what is called `secret` it keeps to itself."""

    def send_head(self):
        if "secret" in self.path:
            self.send_error(403)
            return None
        return super().send_head()

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def served(directory):
    """The URL of a directory."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=directory))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class OverHttp(unittest.TestCase):
    def setUp(self):
        kept = tempfile.TemporaryDirectory(prefix="thalweg-web-test-")
        self.addCleanup(kept.cleanup)
        self.scratch = Path(kept.name)
        self.root = self.scratch / "root"
        self.fleet = self.root / "my fleet"
        for name in ("a#1", "deep/b"):
            recordings.copy(recordings.FIXTURES / "curl-get-loss", self.fleet / f"{name}.thw", "node0", "user0", recordings.FIRST_DAY)
        recordings.copy(recordings.FIXTURES / "cp-source-disk", self.scratch / "c.thw", "node0", "user0", recordings.FIRST_DAY)
        recordings.pack(self.fleet / "c.tar", [self.scratch / "c.thw"])

    def test_a_directory_that_a_web_server_lists_gives_the_same_table(self):
        here = thalweg.fleet(self.fleet, table=self.scratch / "here", workers=1)
        with served(self.root) as url:
            for written in ("my%20fleet", "my%20fleet/"):
                there = thalweg.fleet(f"{url}/{written}", table=self.scratch / "there", workers=2)
                self.assertEqual(there.errors().num_rows, 0)
                wanted = ["recording", "kind", "cause", "place", "seconds", "wall_s", "change"]
                tables = [one.arrow().select(wanted).sort_by([(name, "ascending") for name in wanted]) for one in (here, there)]
                self.assertTrue(tables[0].equals(tables[1]))
                self.assertEqual(sorted(there.arrow("recording")["recording"].to_pylist()), ["a#1.thw", "c.tar/c.thw", "deep/b.thw"])
            self.assertEqual(there.progress.done_before, 3, "nothing is explained twice")
            # One that is packed again is explained again.
            both = [self.scratch / "c.thw", self.scratch / "d.thw"]
            for one in both:
                recordings.copy(recordings.FIXTURES / "cp-source-disk", one, "node0", "user0", recordings.FIRST_DAY)
            recordings.pack(self.fleet / "c.tar", both)
            self.assertEqual(thalweg.fleet(f"{url}/my%20fleet", table=self.scratch / "there", workers=1).progress.recordings, 2)

    def test_errors_name_the_url_and_say_what_to_do(self):
        def fails(url, words, **more):
            with self.assertRaisesRegex(thalweg.ThalwegError, words) as raised:
                thalweg.fleet(url, **{"table": self.scratch / "none", "workers": 1, **more})
            self.assertEqual(len(str(raised.exception).splitlines()), 1)

        with served(self.root) as url:
            fails(f"{url}/absent", f"{url}/absent: there is no such directory")
            fails(f"{url}/secret", f"{url}/secret: the server answers 403")
            fails(f"{url}/my%20fleet/c.tar", "c.tar: a file, and no directory that the server lists: give the directory")
            fails(f"{url}/my%20fleet", "a web server is only read from: say where the table is to be", table=None)
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        fails(f"http://127.0.0.1:{port}/fleet", "the server cannot be reached .*refused.*: check the address, and that it runs")


if __name__ == "__main__":
    unittest.main()
