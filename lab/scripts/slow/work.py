"""What the lab's servers do between a question and its answer: options that every one of them takes."""

import os
import socket
import time


def add_options(parser):
    """Add the kinds of work; without any, an answer costs nothing."""
    parser.add_argument("--sleep", type=float, default=0.0, metavar="S")
    parser.add_argument("--compute", type=float, default=0.0, metavar="S", help="processor time, whatever it takes on the wall")
    parser.add_argument("--sync", metavar="PATH", help="append 4 KiB to a file and have it on its disk")
    parser.add_argument("--read", metavar="PATH", help="read a whole file, in pieces of 256 KiB")
    parser.add_argument("--ask", metavar="PORT", type=int, help="ask a server on loopback: one byte each way")


class Work:
    """Done once for each call."""

    def __init__(self, options):
        self.options = options
        self.file = os.open(options.sync, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644) if options.sync else None
        self.asked = None

    def __call__(self):
        if self.options.compute:
            compute(self.options.compute)
        if self.options.read:
            read_whole(self.options.read)
        if self.file is not None:
            os.write(self.file, bytes(4096))
            os.fdatasync(self.file)
        if self.options.ask:
            self.asked = self.asked or socket.create_connection(("127.0.0.1", self.options.ask))
            self.asked.sendall(b"?")
            self.asked.recv(1)
        if self.options.sleep:
            time.sleep(self.options.sleep)


def read_whole(path):
    """All of a file."""
    with open(path, "rb", buffering=0) as source:
        while source.read(256 << 10):
            pass


def compute(seconds):
    """Use so much processor time of this thread."""
    until = time.thread_time() + seconds
    value = 0
    while time.thread_time() < until:
        for number in range(500):
            value += number * number
    return value
