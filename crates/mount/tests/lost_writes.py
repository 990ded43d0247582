"""Programs whose acknowledged writes are lost, and the errors each of them gets.

usage: lost_writes.py KIND CASE DIRECTORY BALLAST

KIND is `mount`, `strict` or `ext4`; DIRECTORY is on that file system, and a file at BALLAST fills its free space. Where
Linux defines the behaviour (`errseq_t`, as in ext4), all kinds must behave alike. Exit code 0: success.
"""

import mmap
import os
import socket
import subprocess
import sys
import time

KIND, CASE, DIRECTORY, BALLAST = sys.argv[1:5]
STORE = KIND != "ext4"
PATH = os.path.join(DIRECTORY, CASE)
FIRST, MORE = 4096, 100_000


def fill():
    """Fills the file system completely."""
    ballast = os.open(BALLAST, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for size in (1 << 20, 4096, 1):
        try:
            while os.write(ballast, bytes(size)):
                pass
        except OSError:
            pass
    os.close(ballast)


def empty():
    """Frees the space again."""
    os.truncate(BALLAST, 0)


def settle(fd):
    """Waits until written data was sent, and has failed."""
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    time.sleep(1.5 if STORE else 0.5)


class Heard(Exception):
    """The write itself failed, which ends the case."""


def pattern(size, offset=0):
    return bytes((offset + at) * 7 % 251 + 1 for at in range(size))


CONTENT = pattern(FIRST + MORE)


def begin(flags=0):
    """Creates a file with synced bytes at its beginning."""
    fd = os.open(PATH, os.O_RDWR | os.O_CREAT | flags, 0o644)
    os.write(fd, CONTENT[:FIRST])
    os.fsync(fd)
    return fd


def lose(fd):
    """Writes more, which is acknowledged and lost."""
    fill()
    try:
        if os.pwrite(fd, CONTENT[FIRST:], FIRST) != MORE:
            raise Heard
    except OSError as error:
        raise Heard from error
    settle(fd)


def fails(what, *arguments):
    """Returns the errno, or 0."""
    try:
        what(*arguments)
    except OSError as error:
        return error.errno
    return 0


def expect(is_so, what):
    if not is_so:
        sys.exit(f"{KIND}, {CASE}: {what}")


def fails_once(fd, who="the writer"):
    expect(fails(os.fsync, fd), f"fsync of {who} succeeded, and its bytes are lost")
    expect(not fails(os.fsync, fd), f"a second fsync of {who} reports the same loss")


def child(work):
    """Runs `work` in a forked process, with a time limit."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            os._exit(0)
    for _ in range(1000):
        if os.waitpid(pid, os.WNOHANG)[0]:
            return
        time.sleep(0.01)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    sys.exit("a child did not end")


def fork():
    fd = begin()
    lose(fd)
    child(lambda: None)
    fails_once(fd)


def fork_before():
    """The child has a copy of the descriptor, and closes it."""
    fd = begin()
    lose(fd)
    child(lambda: fails(os.close, fd))
    child(lambda: fails(os.close, fd))
    fails_once(fd)


def system():
    fd = begin()
    os.set_inheritable(fd, True)
    lose(fd)
    os.system("true")
    fails_once(fd)


def execute():
    fd = begin()
    lose(fd)
    subprocess.run(["true"], pass_fds=[fd], check=True, timeout=10)
    subprocess.run(["true"], check=True, timeout=10)
    fails_once(fd)


def duplicate():
    fd = begin()
    lose(fd)
    for _ in range(3):
        failed = fails(os.close, os.dup(fd))
        expect(failed or not STORE, "a close says nothing of the loss")
    fails_once(fd)
    expect(not fails(os.close, os.dup(fd)), "a close reports what fsync has reported")


def passed():
    """Another process has the same open file, passed over a socket: one of the two gets the error."""
    fd = begin()
    ours, theirs = socket.socketpair()
    socket.send_fds(ours, [b"x"], [fd])
    lose(fd)

    def receive():
        _, fds, _, _ = socket.recv_fds(theirs, 1, 1)
        fails(os.close, fds[0])

    child(receive)
    fails_once(fd)


def two_processes():
    """Each program has opened the file, and each gets the error."""
    fd = begin()
    down, up = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        own = os.open(PATH, os.O_RDWR)
        os.write(up[1], b"o")
        os.read(down[0], 1)
        os.write(up[1], b"y" if fails(os.fsync, own) and not fails(os.fsync, own) else b"n")
        os._exit(0)
    os.read(up[0], 1)
    try:
        lose(fd)
        fails_once(fd)
    finally:
        os.write(down[1], b"g")
        answer = os.read(up[0], 1)
        os.waitpid(pid, 0)
    expect(answer == b"y", "the other process does not get the error once")


def two_descriptors():
    fd = begin()
    other, reader = os.open(PATH, os.O_RDWR), os.open(PATH, os.O_RDONLY)
    lose(fd)
    fails_once(other, "a second descriptor")
    fails_once(fd)
    fails_once(reader, "a reader")


def mapped():
    fd = begin()
    os.ftruncate(fd, FIRST + MORE)
    fill()
    with mmap.mmap(fd, FIRST + MORE) as memory:
        memory[FIRST:] = CONTENT[FIRST:]
        expect(fails(memory.flush), "msync succeeded, and its bytes are lost")
    expect(not fails(os.fsync, fd), "fsync reports what msync has reported")


def mapped_and_forked():
    """The pages are written back by a close in a child."""
    fd = begin()
    os.ftruncate(fd, FIRST + MORE)
    other = os.open(PATH, os.O_RDWR)
    fill()
    memory = mmap.mmap(fd, FIRST + MORE)
    memory[FIRST:] = CONTENT[FIRST:]
    child(lambda: fails(os.close, fd))
    settle(fd)
    expect(fails(os.fsync, fd), "fsync succeeded, and mapped bytes are lost")
    expect(fails(os.fsync, other), "fsync of another descriptor succeeded, and mapped bytes are lost")
    memory.close()


def synchronous():
    fd = begin(os.O_SYNC)
    fill()
    expect(fails(os.pwrite, fd, CONTENT[FIRST:], FIRST), "an O_SYNC write succeeded, and its bytes are lost")


def append():
    fd = begin(os.O_APPEND)
    fill()
    if not fails(os.write, fd, CONTENT[FIRST:]):
        settle(fd)
        fails_once(fd)


def rename_over():
    fd = begin()
    with open(PATH + ".old", "wb") as old:
        old.write(b"old")
    lose(fd)
    os.rename(PATH, PATH + ".old")
    fails_once(fd)
    if STORE:
        expect(fails(read, PATH + ".old"), "a reader of the new name gets zeros")


def unlink():
    fd = begin()
    lose(fd)
    os.unlink(PATH)
    fails_once(fd)


def unseen():
    """Without a sync so far, the next program that syncs gets the error."""
    fd = begin()
    lose(fd)
    fails(os.close, fd)
    fd = os.open(PATH, os.O_RDWR)
    expect(fails(os.fsync, fd), "fsync after the writer has gone succeeded, and bytes are lost")


def read(path):
    with open(path, "rb") as file:
        return file.read()


def reads_own():
    """A program that had the file open reads what it wrote."""
    fd = begin()
    lose(fd)
    fails(os.fsync, fd)
    expect(os.pread(fd, len(CONTENT), 0) == CONTENT, "the writer does not read what it wrote")
    expect(os.fstat(fd).st_size == len(CONTENT), "the file does not keep its size")


def reader_after():
    fd = begin()
    lose(fd)
    fails(os.fsync, fd)
    for _ in range(2):
        after = os.open(PATH, os.O_RDONLY)
        expect(fails(os.pread, after, 10, 0), "a reader gets bytes of a file that lost some")
        expect(fails(os.pread, after, 10, FIRST), "a reader gets lost bytes")
        expect(os.fstat(after).st_size == len(CONTENT), "the file does not keep its size")
        fails(os.close, after)
        if fd >= 0:
            fails(os.close, fd)
            fd = -1
    mender = os.open(PATH, os.O_RDWR)
    expect(os.pread(mender, FIRST, 0) == CONTENT[:FIRST], "who may mend it cannot read what is not lost")
    expect(fails(os.pread, mender, 10, FIRST), "who may mend it reads lost bytes")


def mended():
    fd = begin()
    lose(fd)
    fails(os.fsync, fd)
    fails(os.close, fd)
    empty()
    fd = os.open(PATH, os.O_RDWR)
    os.pwrite(fd, CONTENT[FIRST:], FIRST)
    expect(not fails(os.fsync, fd), "fsync of what was written again fails")
    expect(not fails(os.close, fd), "close of what was written again fails")
    expect(read(PATH) == CONTENT, "what was written again is not what is read")


def accepted():
    fd = begin()
    lose(fd)
    fails(os.fsync, fd)
    fails(os.close, fd)
    empty()
    subprocess.run(["truncate", "-s", str(len(CONTENT)), PATH], check=True, timeout=10)
    found = read(PATH)
    expect(len(found) == len(CONTENT) and found[:FIRST] == CONTENT[:FIRST], "a file that was accepted as it is cannot be read")


def goes_on():
    """After a reported loss, new writes are synced or reported again."""
    fd = begin()
    lose(fd)
    fails_once(fd)
    empty()
    os.pwrite(fd, CONTENT, 0)
    expect(not fails(os.fsync, fd), "fsync fails after everything was written again")
    if STORE:
        expect(read(PATH) == CONTENT, "what was written again is not what is read")


os.makedirs(DIRECTORY, exist_ok=True)
try:
    globals()[CASE]()
except Heard:
    if KIND != "strict":
        sys.exit(f"{KIND}, {CASE}: the write itself has failed, and nothing was lost")
finally:
    empty()
