"""client.py KIND ...: a small client, each kind with a wait of its own.

    ask PORT N           N questions of one byte, one after another, on one connection (--each: on a connection for each;
                         --threads T: as many at once)
    pairs PORT N         N questions that are written in two pieces (--whole: in one)
    udp PORT N           N datagrams, each asked again after --timeout seconds
    names N              N names looked up by getaddrinfo(3), by --threads threads
    send PORT N          N blocks of 64 KiB, then the end, then one byte back
    pool N               N tasks in a pool of --threads threads; --hash BYTES or --sleep of each
    queue N              N things from another thread, which does its work before each
    processes N          N tasks in a pool of --threads processes
    written PATH N       N MiB of a mapped file, each written and then synced (msync)
    memory N             N MiB of memory, touched
    timers N             N waits by --how asyncio, poll, semaphore or condition
    locked PATH N        N times a record lock (fcntl), and 1 ms of work
    mapped PATH          the sum of a mapped file's pages (--how forward or scattered)
    each PATH N          N blocks written, each by a thread of its own, which does its work first
    halves PORT N        N questions of one byte that are answered with 200
"""

import argparse
import asyncio
import concurrent.futures
import fcntl
import hashlib
import mmap
import multiprocessing
import os
import queue
import select
import socket
import sys
import threading

from work import Work, add_options, compute

PIECE_BYTES = 100
BLOCK_BYTES = 64 << 10
PAGE_BYTES = 4096


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=sorted(KINDS))
    parser.add_argument("place")
    parser.add_argument("times", nargs="?", type=int, default=1)
    parser.add_argument("--address", default="127.0.0.1")
    parser.add_argument("--each", action="store_true")
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=0.2)
    parser.add_argument("--hash", type=int, default=0)
    parser.add_argument("--how", default="")
    add_options(parser)
    options = parser.parse_args()
    return KINDS[options.kind](options, Work(options))


def connected(options):
    """A connection, with Nagle's algorithm as it is."""
    return socket.create_connection((options.address, int(options.place)))


def ask(options, work):
    """Questions of a byte."""

    def some(count):
        connection = None if options.each else connected(options)
        for _ in range(count):
            work()
            used = connection or connected(options)
            used.sendall(b"?")
            if used.recv(1) != b"!":
                raise ValueError("no answer")
            if options.each:
                used.close()

    if options.threads == 1:
        return some(options.times)
    with concurrent.futures.ThreadPoolExecutor(options.threads) as pool:
        list(pool.map(some, [options.times // options.threads] * options.threads))


def pairs(options, _work):
    """Two pieces."""
    connection = connected(options)
    for _ in range(options.times):
        if options.whole:
            connection.sendall(bytes(2 * PIECE_BYTES))
        else:
            connection.sendall(bytes(PIECE_BYTES))
            connection.sendall(bytes(PIECE_BYTES))
        connection.recv(1)


def halves(options, work):
    """Answers that may come in two pieces."""
    connection = connected(options)
    for _ in range(options.times):
        work()
        connection.sendall(b"?")
        connection.recv(2 * PIECE_BYTES, socket.MSG_WAITALL)


def udp(options, work):
    """Datagrams that may get lost."""
    asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    asking.settimeout(options.timeout)
    for number in range(options.times):
        work()
        while True:
            asking.sendto(str(number).encode(), (options.address, int(options.place)))
            try:
                asking.recv(2048)
                break
            except TimeoutError:
                continue


def names(options, _work):
    """Names, each of them another."""

    def look_up(number):
        return socket.getaddrinfo(f"host-{number}.test", None, socket.AF_INET)

    with concurrent.futures.ThreadPoolExecutor(options.threads) as pool:
        assert all(pool.map(look_up, range(int(options.place))))


def send(options, work):
    """Blocks one way."""
    connection = connected(options)
    for _ in range(options.times):
        work()
        connection.sendall(bytes(BLOCK_BYTES))
    connection.shutdown(socket.SHUT_WR)
    connection.recv(1)


def pool(options, work):
    """Tasks."""

    def task(_):
        if options.hash:
            hashlib.sha256(bytes(options.hash)).digest()
        work()

    with concurrent.futures.ThreadPoolExecutor(options.threads) as threads:
        list(threads.map(task, range(options.times)))


def queued(options, work):
    """A queue between threads."""
    between = queue.Queue()

    def fill():
        for number in range(options.times):
            work()
            between.put(number)

    threading.Thread(target=fill).start()
    for _ in range(options.times):
        between.get()
        compute(0.0002)


def processes(options, work):
    """Tasks for other processes."""
    global TASK
    TASK = work
    with multiprocessing.get_context("fork").Pool(options.threads) as workers:
        workers.map(one_task, range(options.times), chunksize=1)


def one_task(_):
    """What a process of the pool does."""
    TASK()


def memory(options, _work):
    """Memory that was never used."""
    pages = mmap.mmap(-1, options.times << 20)
    pages.madvise(mmap.MADV_NOHUGEPAGE)
    block = bytes([1]) * PAGE_BYTES
    for offset in range(0, len(pages), PAGE_BYTES):
        pages[offset : offset + 1] = block[:1]


def written(options, _work):
    """A mapping that goes to its disk."""
    with open(options.place, "wb+") as file:
        file.truncate(options.times << 20)
        with mmap.mmap(file.fileno(), 0) as pages:
            for number in range(options.times):
                pages[number << 20 : (number + 1) << 20] = bytes([number % 255 + 1]) * (1 << 20)
                pages.flush(number << 20, 1 << 20)


def timers(options, _work):
    """Waits for nothing but time."""
    TIMERS[options.how](options.times, options.sleep)


def by_asyncio(times, seconds):
    """An event loop."""

    async def all_of_them():
        for _ in range(times):
            await asyncio.sleep(seconds)
            compute(0.0002)

    asyncio.run(all_of_them())


def by_poll(times, seconds):
    """poll(2) of a pipe that nobody writes to."""
    reading, _writing = os.pipe()
    poll = select.poll()
    poll.register(reading, select.POLLIN)
    for _ in range(times):
        poll.poll(seconds * 1000)
        compute(0.0002)


def by_semaphore(times, seconds):
    """A semaphore that nobody posts."""
    semaphore = threading.Semaphore(0)
    for _ in range(times):
        semaphore.acquire(timeout=seconds)
        compute(0.0002)


def by_condition(times, seconds):
    """A condition that does not come true."""
    condition = threading.Condition()
    for _ in range(times):
        with condition:
            condition.wait(seconds)
        compute(0.0002)


def locked(options, _work):
    """A lock that others hold."""
    with open(options.place, "a") as file:
        for _ in range(options.times):
            fcntl.lockf(file, fcntl.LOCK_EX)
            compute(0.001)
            fcntl.lockf(file, fcntl.LOCK_UN)


def mapped(options, _work):
    """Pages that are touched."""
    with open(options.place, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as pages:
        count = len(pages) // PAGE_BYTES
        step = 1 if options.how == "forward" else 769
        if step > 1:
            pages.madvise(mmap.MADV_RANDOM)
            count = min(count, options.times)
        found = 0
        for number in range(count):
            found += pages[(number * step) % (len(pages) // PAGE_BYTES) * PAGE_BYTES]
        print(found)


def each(options, work):
    """A thread for each block."""
    with open(options.place, "wb", buffering=0) as out:
        for _ in range(options.times):

            def one():
                work()
                out.write(bytes(BLOCK_BYTES))

            thread = threading.Thread(target=one)
            thread.start()
            thread.join()


KINDS = {
    "ask": ask, "halves": halves, "memory": memory, "names": names, "processes": processes, "queue": queued,
    "each": each, "locked": locked, "mapped": mapped, "pairs": pairs, "pool": pool, "send": send, "timers": timers, "udp": udp,
    "written": written,
}
TASK = None
TIMERS = {"asyncio": by_asyncio, "condition": by_condition, "poll": by_poll, "semaphore": by_semaphore}

if __name__ == "__main__":
    sys.exit(main())
