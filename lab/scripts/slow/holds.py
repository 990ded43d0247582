"""holds.py KIND PATH: somebody whom others wait for without asking anybody; it prints `ready`, and begins its work when the file of --begin is there.

    appears PATH         makes a file after its work
    removes PATH         has a file (--directory: a directory) there until its work is done
    record PATH          has a record lock (fcntl) of a file until its work is done
    line PATH            appends the line `ready` to a file after its work, and others behind it
    fifo PATH            opens a FIFO after its work, and writes a line
    listens PATH         listens on a UNIX socket after its work, and answers a byte with a byte
    http PORT            answers 503 until its work is done, and then 200; the first request begins the work
"""

import argparse
import fcntl
import os
import shutil
import socket
import sys
import threading
import time

from serve import listening, ready
from work import Work, add_options

LOOK_S = 0.001
REST_S = 60


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=sorted(KINDS))
    parser.add_argument("place")
    parser.add_argument("--begin", metavar="PATH")
    parser.add_argument("--directory", action="store_true")
    add_options(parser)
    options = parser.parse_args()
    work = Work(options)

    def after_begin():
        ready()
        while not os.path.exists(options.begin):
            time.sleep(LOOK_S)
        os.unlink(options.begin)
        work()

    KINDS[options.kind](options, work if options.kind == "http" else after_begin)
    time.sleep(REST_S)


def clear(path):
    """Nothing is there."""
    if os.path.isdir(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)


def appears(options, work):
    """A result."""
    clear(options.place)
    work()
    with open(f"{options.place}.partial", "w") as out:
        out.write("done\n")
    os.rename(f"{options.place}.partial", options.place)


def removes(options, work):
    """A lock that is a name."""
    clear(options.place)
    if options.directory:
        os.mkdir(options.place)
    else:
        open(options.place, "x").close()
    work()
    clear(options.place)


def record(options, work):
    """A lock of the kernel's."""
    with open(options.place, "w") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        work()


def line(options, work):
    """A program's own report, in a file."""
    with open(options.place, "w", buffering=1) as out:
        out.write("starting\n")
        work()
        # Whoever only passes lines on learns with a later one that nobody reads them any more.
        for word in ["ready", *["idle"] * 20]:
            out.write(f"{word}\n")
            time.sleep(0.02)


def fifo(options, work):
    """The other end of a FIFO."""
    clear(options.place)
    os.mkfifo(options.place)
    work()
    with open(options.place, "w") as out:
        out.write("done\n")


def listens(options, work):
    """A socket that is not there yet."""
    clear(options.place)
    work()
    server = socket.socket(socket.AF_UNIX)
    server.bind(options.place)
    server.listen()
    while True:
        client = server.accept()[0]
        client.sendall(client.recv(1))
        client.close()


def http(options, work):
    """A server that is not ready."""

    def prepare():
        work()
        done.set()

    done, begun = threading.Event(), False
    server = listening(options.place)
    ready()
    while True:
        client = server.accept()[0]
        if client.recv(1024) and not begun:
            begun = True
            threading.Thread(target=prepare, daemon=True).start()
        if not (options.sleep or options.compute):
            done.wait()
        status = "200 OK" if done.is_set() else "503 Service Unavailable"
        client.sendall(f"HTTP/1.0 {status}\r\nContent-Length: 0\r\n\r\n".encode())
        client.shutdown(socket.SHUT_WR)
        client.close()


KINDS = {"appears": appears, "fifo": fifo, "http": http, "line": line, "listens": listens, "record": record, "removes": removes}

if __name__ == "__main__":
    try:
        main()
    except (BrokenPipeError, ConnectionError, KeyboardInterrupt):
        sys.exit(0)
