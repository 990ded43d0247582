"""blocks.py KIND ...: programs that do one small thing after the other, as many are written, and with more under way.

    picks FILE N             N reads of 4 KiB at offsets in no order, each when the last has come; --under-way: so many threads of them
    packs SOURCE SINK        a MiB is read past what the kernel reads ahead, then compressed, then the next; --under-way 2: the next is read meanwhile
    sftp CONFIG FILE         paramiko reads a file 32 KiB at a time; --under-way: so many pieces are asked for at once
"""

import argparse
import os
import zlib
from concurrent.futures import ThreadPoolExecutor

PICK_BYTES = 4096
BLOCK_BYTES = 1 << 20
PIECE_BYTES = 32 << 10


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=("picks", "packs", "sftp"))
    parser.add_argument("words", nargs=2)
    parser.add_argument("--under-way", type=int, default=1)
    options = parser.parse_args()
    {"picks": picks, "packs": packs, "sftp": sftp}[options.kind](*options.words, options.under_way)


def picks(path, count, under_way):
    """Every pick is another page of the file."""
    file = os.open(path, os.O_RDONLY)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
    pages = os.fstat(file).st_size // PICK_BYTES

    def pick(number):
        return len(os.pread(file, PICK_BYTES, number * 7919 % pages * PICK_BYTES))

    if under_way == 1:
        assert all(pick(number) for number in range(int(count)))
        return
    with ThreadPoolExecutor(under_way) as pool:
        assert all(pool.map(pick, range(int(count))))


def packs(source, sink, under_way):
    """An archiver whose reading and compressing take turns, or whose reading is ahead by one block."""
    with open(source, "rb", buffering=0) as taken, open(sink, "wb") as made, ThreadPoolExecutor(1) as pool:
        os.posix_fadvise(taken.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        block = taken.read(BLOCK_BYTES)
        while block:
            ahead = pool.submit(taken.read, BLOCK_BYTES) if under_way > 1 else None
            made.write(zlib.compress(block, 1))
            block = ahead.result() if ahead else taken.read(BLOCK_BYTES)


def sftp(configuration, path, under_way):
    """A file over SFTP, by a client in Python."""
    import paramiko

    there = paramiko.SSHConfig.from_path(configuration).lookup("there")
    client = paramiko.SSHClient()
    client.set_missing_host_key_policy(paramiko.AutoAddPolicy())
    client.connect(there["hostname"], int(there["port"]), there["user"], key_filename=there["identityfile"], allow_agent=False, look_for_keys=False)
    # Each thread has a session of its own: one does not bear several that read at once.
    def read(first):
        with client.open_sftp() as session, session.open(path) as file:
            for at in range(first * PIECE_BYTES, session.stat(path).st_size, under_way * PIECE_BYTES):
                file.seek(at)
                assert file.read(PIECE_BYTES)

    with ThreadPoolExecutor(under_way) as pool:
        list(pool.map(read, range(under_way)))
    client.close()


if __name__ == "__main__":
    main()
