"""serve.py KIND ...: a small server that is slow in a way of its own; it prints `ready` when it can be asked.

    echo PORT            answers every question of one byte, one client at a time (--threads: a thread for each connection,
                         --thread-each: a thread for each question)
    pairs PORT           answers after every two pieces of 100 bytes
    udp PORT             answers datagrams; of each --lose N the first is not answered
    names ADDRESS        answers queries for names on port 53: 127.0.0.1 for every one; --lose as above (--thread-each: a thread for each)
    backlog PORT         listens with a queue for one, which it fills itself, and does its work before it accepts anybody
    stall PORT           reads all it gets, but does its work once, after --after bytes (--each: after every block)
    terminal PATH        is at the other end of a terminal, and answers each prompt that ends in `? ` with a line
    fifo PATH            writes --blocks of 64 KiB into a FIFO, with its work before each
    sqlite PATH          has a database locked from the time that PATH.go is there until its work is done
    push PORT            pushes an element onto the list `jobs` of the redis there whenever somebody waits for one, after its work
    late PORT            answers HTTP, but listens only after its work, which begins when the file of --begin is there
    busy PORT            as echo, with another client in its queue that always has a question (its work is for each)
    jobs PORT            answers HTTP: `/start` begins its work in a thread, `/` says whether that is done
    halves PORT          answers every question of one byte in two pieces of 100 bytes (--whole: in one)
    lock PATH            holds a record lock (fcntl) of a file for its work, again and again with a pause of 1 ms, --times
"""

import argparse
import fcntl
import os
import select
import socket
import sqlite3
import struct
import sys
import threading
import time

from work import Work, add_options

BLOCK_BYTES = 64 << 10
PIECE_BYTES = 100


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=sorted(KINDS))
    parser.add_argument("place")
    parser.add_argument("--threads", action="store_true")
    parser.add_argument("--thread-each", action="store_true")
    parser.add_argument("--lose", type=int, default=0)
    parser.add_argument("--after", type=int, default=0)
    parser.add_argument("--blocks", type=int, default=1)
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--each", action="store_true")
    parser.add_argument("--begin", metavar="PATH")
    parser.add_argument("--whole", action="store_true")
    add_options(parser)
    options = parser.parse_args()
    KINDS[options.kind](options, Work(options))


def ready():
    """Say so."""
    print("ready", flush=True)


def listening(port, queue=128):
    """A socket that listens on loopback."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind(("0.0.0.0", int(port)))
    made.listen(queue)
    return made


def echo(options, work):
    """Questions of a byte."""
    server = listening(options.place)
    ready()
    while True:
        client = server.accept()[0]
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if options.threads:
            threading.Thread(target=answer, args=(options, client, work), daemon=True).start()
        else:
            answer(options, client, work)


def answer(options, client, work):
    """All questions of one client."""

    def one():
        work()
        client.sendall(b"!")

    while client.recv(1):
        if options.thread_each:
            thread = threading.Thread(target=one)
            thread.start()
            thread.join()
        else:
            one()
    client.close()


def pairs(options, work):
    """Questions that are two pieces long."""
    server = listening(options.place)
    ready()
    while True:
        client = server.accept()[0]
        while client.recv(2 * PIECE_BYTES, socket.MSG_WAITALL):
            work()
            client.sendall(b"!")


def udp(options, work):
    """Datagrams."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", int(options.place)))
    ready()
    asked = 0
    while True:
        question, who = server.recvfrom(2048)
        asked += 1
        if options.lose and asked % options.lose == 1:
            continue
        work()
        server.sendto(question, who)


def names(options, work):
    """Queries for names; only addresses of version 4 are known."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind((options.place, 53))
    ready()
    asked = 0
    while True:
        query, who = server.recvfrom(2048)
        asked += 1
        if options.lose and asked % options.lose == 1:
            continue
        if options.thread_each:
            threading.Thread(target=name, args=(server, query, who, work), daemon=True).start()
        else:
            name(server, query, who, work)


def name(server, query, who, work):
    """One query."""
    end = query.index(b"\0", 12) + 5
    is_address = struct.unpack("!H", query[end - 4 : end - 2])[0] == 1
    work()
    head = query[:2] + struct.pack("!HHHHH", 0x8180, 1, int(is_address), 0, 0)
    found = b"\xc0\x0c" + struct.pack("!HHIH", 1, 1, 0, 4) + bytes([127, 0, 0, 1]) if is_address else b""
    server.sendto(head + query[12:end] + found, who)


def backlog(options, work):
    """A queue that is full."""
    server = listening(options.place, 0)
    if options.sleep or options.compute:
        filling = socket.create_connection(("127.0.0.1", int(options.place)))
    ready()
    if options.sleep or options.compute:
        work()
        server.accept()[0].close()
        filling.close()
    while True:
        client = server.accept()[0]
        while client.recv(1):
            client.sendall(b"!")


def stall(options, work):
    """A reader that stops once."""
    server = listening(options.place)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 256 << 10)
    ready()
    while True:
        client, got, done = server.accept()[0], 0, False
        while piece := client.recv(BLOCK_BYTES):
            got += len(piece)
            if got >= options.after and (options.each or not done):
                done = True
                work()
        client.sendall(b"!")
        client.close()


def terminal(options, work):
    """Somebody who types."""
    ours, theirs = os.openpty()
    if os.path.lexists(options.place):
        os.unlink(options.place)
    os.symlink(os.ttyname(theirs), options.place)
    ready()
    seen = b""
    while True:
        seen += os.read(ours, 1024)
        if seen.endswith(b"? "):
            work()
            os.write(ours, b"yes\n")
            seen = b""


def fifo(options, work):
    """What comes out of a FIFO."""
    if os.path.lexists(options.place):
        os.unlink(options.place)
    os.mkfifo(options.place)
    ready()
    with open(options.place, "wb", buffering=0) as out:
        for _ in range(options.blocks):
            work()
            out.write(bytes(BLOCK_BYTES))


def lock(options, work):
    """Somebody else's lock."""
    with open(options.place, "w") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        ready()
        for _ in range(options.times):
            work()
            fcntl.lockf(file, fcntl.LOCK_UN)
            time.sleep(0.001)
            fcntl.lockf(file, fcntl.LOCK_EX)
        fcntl.lockf(file, fcntl.LOCK_UN)
        time.sleep(60)


def sqlite(options, work):
    """Somebody else's transaction."""
    database = sqlite3.connect(options.place, isolation_level=None)
    database.execute("create table if not exists one (number)")
    database.execute("begin exclusive")
    ready()
    while not os.path.exists(f"{options.place}.go"):
        time.sleep(0.001)
    work()
    os.unlink(f"{options.place}.go")
    database.execute("commit")
    time.sleep(60)


def push(options, work):
    """Jobs for whoever waits for one."""
    redis = socket.create_connection(("127.0.0.1", int(options.place)))

    def asked(*words):
        redis.sendall(f"*{len(words)}\r\n".encode() + b"".join(f"${len(word)}\r\n{word}\r\n".encode() for word in words))
        return redis.recv(65536)

    ready()
    while True:
        if b"blocked_clients:1" in asked("INFO", "clients"):
            work()
            asked("RPUSH", "jobs", "one")
        time.sleep(0.001)


def late(options, work):
    """A server that is not there yet."""
    ready()
    while not os.path.exists(options.begin):
        time.sleep(0.001)
    os.unlink(options.begin)
    work()
    server = listening(options.place)
    while True:
        client = server.accept()[0]
        client.recv(1024)
        client.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n")
        client.close()


def jobs(options, work):
    """A job that somebody asks after."""

    def job():
        done.clear()
        work()
        done.set()

    done = threading.Event()
    server = listening(options.place)
    ready()
    while True:
        client = server.accept()[0]
        if client.recv(1024).startswith(b"GET /start"):
            done.clear()
            threading.Thread(target=job, daemon=True).start()
        said = b"done" if done.is_set() else b"busy"
        client.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: 4\r\n\r\n" + said)
        client.close()


def halves(options, work):
    """Answers in two pieces."""
    server = listening(options.place)
    ready()
    while True:
        client = server.accept()[0]
        while client.recv(1):
            work()
            for piece in (2,) if options.whole else (1, 1):
                client.sendall(bytes(piece * PIECE_BYTES))
        client.close()


def busy(options, work):
    """A queue in which one is not alone."""

    def other():
        with socket.create_connection(("127.0.0.1", int(options.place))) as asking:
            # Three are on their way at any time, so that one is always in the queue.
            asking.sendall(b"ooo")
            while asking.recv(1):
                asking.sendall(b"o")

    server = listening(options.place)
    clients = []
    threading.Thread(target=other, daemon=True).start()
    ready()
    while True:
        for readable in select.select([server, *clients], [], [])[0]:
            if readable is server:
                clients.append(server.accept()[0])
                continue
            question = readable.recv(1)
            if not question:
                clients.remove(readable)
                continue
            if question == b"o":
                work()
            readable.sendall(b"!")


KINDS = {
    "backlog": backlog, "busy": busy, "halves": halves, "jobs": jobs, "late": late, "push": push,
    "echo": echo, "fifo": fifo, "lock": lock, "names": names, "pairs": pairs, "sqlite": sqlite, "stall": stall,
    "terminal": terminal, "udp": udp,
}

if __name__ == "__main__":
    try:
        main()
    except (BrokenPipeError, ConnectionError, KeyboardInterrupt):
        sys.exit(0)
