#!/usr/bin/env python3
"""Read a file past the page cache for ever: readers.py FILE THREADS. It is made first, of 16 MiB."""

import mmap
import os
import sys
import threading

SIZE = 16 << 20


def read(path):
    buffer = mmap.mmap(-1, 1 << 20)
    file = os.open(path, os.O_RDONLY | os.O_DIRECT)
    while True:
        for offset in range(0, SIZE, len(buffer)):
            os.preadv(file, [buffer], offset)


def main():
    path, threads = sys.argv[1], int(sys.argv[2])
    with open(path, "wb") as file:
        file.write(bytes(SIZE))
        os.fsync(file.fileno())
    for _ in range(threads):
        threading.Thread(target=read, args=(path,), daemon=True).start()
    print("ready", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
