"""looks.py KIND: looks again and again whether something is done, every --every seconds; until then it sleeps.

    http PORT            whether a server's job is (`serve.py jobs`): a request each time
    join                 whether a thread of its own is, which does the work: waits for its end with a time limit
    alive                the same, by asking whether it is alive
    child                whether a child is, which does the work (or is COMMAND ...)
"""

import argparse
import ctypes
import os
import socket
import sys
import threading
import time

from work import Work, add_options

PR_SET_NAME = 15


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=sorted(KINDS))
    parser.add_argument("words", nargs="*")
    parser.add_argument("--address", default="127.0.0.1")
    parser.add_argument("--every", type=float, default=0.02)
    add_options(parser)
    options = parser.parse_intermixed_args()
    return KINDS[options.kind](options, Work(options))


def http(options, _work):
    """A server's job."""

    def asked(path):
        with socket.create_connection((options.address, int(options.words[0]))) as connection:
            connection.sendall(f"GET {path} HTTP/1.0\r\n\r\n".encode())
            answer = b""
            while piece := connection.recv(1024):
                answer += piece
        return answer.endswith(b"done")

    asked("/start")
    while not asked("/"):
        time.sleep(options.every)


def started(work):
    """A thread that does the work, and has a name of its own."""

    def named():
        ctypes.CDLL(None).prctl(PR_SET_NAME, b"worker", 0, 0, 0)
        work()

    thread = threading.Thread(target=named)
    thread.start()
    return thread


def join(options, work):
    """A thread's end, waited for in parts."""
    thread = started(work)
    while thread.is_alive():
        thread.join(options.every)


def alive(options, work):
    """A thread's end, asked for."""
    thread = started(work)
    while thread.is_alive():
        time.sleep(options.every)


def child(options, work):
    """A child's end."""
    pid = os.fork()
    if pid == 0:
        if options.words:
            os.execvp(options.words[0], options.words)
        work()
        os._exit(0)
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        time.sleep(options.every)


KINDS = {"alive": alive, "child": child, "http": http, "join": join}

if __name__ == "__main__":
    sys.exit(main())
