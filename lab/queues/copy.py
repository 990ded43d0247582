"""copy.py HOW MIB TO: make blocks of 2 MiB, sum each (SHA-256), and carry each to TO: `ADDRESS:PORT`, or a file (`direct:PATH`: past the page cache).

HOW says in which order:
    turns        one block is summed, then carried
    overlapped   a thread sums while another carries, at most four blocks ahead
    raw          nothing is summed: what the link or the disk takes, and its queue

It prints how long it carried, in seconds, without the interpreter's start.
"""

import hashlib
import mmap
import os
import queue
import socket
import sys
import threading
import time

BLOCK = 2 << 20
AHEAD = 4


def main(how, mib, to):
    carry, done = disk(to) if "/" in to else link(to)
    blocks = summed(int(mib) * (1 << 20) // BLOCK, how != "raw")
    begun = time.monotonic()
    for block in ahead(blocks) if how == "overlapped" else blocks:
        carry(block)
    done()
    print(time.monotonic() - begun)


def summed(count, sums):
    block = bytearray(os.urandom(BLOCK))
    for number in range(count):
        block[:8] = number.to_bytes(8, "little")
        if sums:
            block[8:40] = hashlib.sha256(block).digest()
        yield bytes(block)


def ahead(blocks):
    made = queue.Queue(AHEAD)

    def make():
        for block in blocks:
            made.put(block)
        made.put(None)

    threading.Thread(target=make, daemon=True).start()
    while block := made.get():
        yield block


def link(to):
    address, port = to.split(":")
    connection = socket.create_connection((address, int(port)))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)

    def done():
        connection.shutdown(socket.SHUT_WR)
        connection.recv(1)

    return connection.sendall, done


def disk(to):
    direct = to.startswith("direct:")
    path = to.removeprefix("direct:")
    out = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | (os.O_DIRECT if direct else 0))
    aligned = mmap.mmap(-1, BLOCK)

    def carry(block):
        aligned[:] = block
        os.write(out, aligned)

    return carry, lambda: os.fsync(out)


if __name__ == "__main__":
    main(*sys.argv[1:])
