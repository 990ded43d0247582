#!/usr/bin/env python3
"""thrash.py ADDRESS PORT DIRECTORY MOST: a web server of a folder's files that is slower with more connections than MOST.

Each connection gets at most CAP bytes a second. All together get MOST times that, while no more than MOST are sending; with n of them, a part of
it that falls as (MOST / n) ** FALL: what a disk with a head, or a cache that is too small, does to those who share it. Answers GET and HEAD with
ranges, and lists the folder.
"""

import os
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CAP = 16 << 20
FALL = 1.0
CHUNK = 64 << 10


class Shared:
    """What all connections share: how many are sending, and how fast each may."""

    def __init__(self, most):
        self.most = most
        self.sending = 0
        self.lock = threading.Lock()

    def add(self, number):
        """One more, or one less, is sending."""
        with self.lock:
            self.sending += number

    def each_bytes_per_s(self):
        """What each connection gets now."""
        return rate_of_each(max(self.sending, 1), self.most)


def rate_of_each(sending, most):
    """What each of so many connections gets, bytes a second."""
    return CAP if sending <= most else CAP * (most / sending) ** (1 + FALL)


class Handler(BaseHTTPRequestHandler):
    """Serves `directory`, one thread for each connection."""

    protocol_version = "HTTP/1.1"
    directory = None
    shared = None

    def log_message(self, *_):
        """Nothing is logged."""

    def do_HEAD(self):
        """The headers of GET."""
        self._answer(body=False)

    def do_GET(self):
        """A file, a range of it, or the folder's list."""
        self._answer(body=True)

    def _answer(self, body):
        name = self.path.strip("/")
        if not name:
            links = "".join(f'<a href="{one}">{one}</a>\n' for one in sorted(os.listdir(self.directory)))
            self._head(200, len(links), "text/html")
            self.wfile.write(links.encode() if body else b"")
            return
        path = os.path.join(self.directory, os.path.basename(name))
        if not os.path.isfile(path):
            self.send_error(404)
            return
        size = os.path.getsize(path)
        begin, end = self._range(size)
        self._head(206 if "Range" in self.headers else 200, end - begin, "application/octet-stream", f"bytes {begin}-{end - 1}/{size}")
        if body:
            self._send(path, begin, end)

    def _head(self, code, length, kind, content_range=None):
        self.send_response(code)
        self.send_header("Content-Length", str(length))
        self.send_header("Content-Type", kind)
        self.send_header("Accept-Ranges", "bytes")
        if code == 206:
            self.send_header("Content-Range", content_range)
        self.end_headers()

    def _range(self, size):
        if "Range" not in self.headers:
            return 0, size
        begin, end = self.headers["Range"].removeprefix("bytes=").split("-")
        return int(begin), min(int(end) + 1, size) if end else size

    def _send(self, path, begin, end):
        self.shared.add(1)
        due = time.monotonic()
        try:
            with open(path, "rb", buffering=0) as source:
                source.seek(begin)
                while begin < end:
                    piece = source.read(min(CHUNK, end - begin))
                    begin += len(piece)
                    due += len(piece) / self.shared.each_bytes_per_s()
                    time.sleep(max(0.0, due - time.monotonic()))
                    self.wfile.write(piece)
        except OSError:
            # The client has what it wants.
            self.close_connection = True
        finally:
            self.shared.add(-1)


class Server(ThreadingHTTPServer):
    """As many waiting connections as a client may open at once."""

    request_queue_size = 256
    daemon_threads = True


def main(address, port, directory, most):
    Handler.directory, Handler.shared = directory, Shared(int(most))
    Server((address, int(port)), Handler).serve_forever()


if __name__ == "__main__":
    if len(sys.argv) != 5:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    main(*sys.argv[1:])
