"""Files to copy: made once, in the page cache or out of it and shown to be, compared after a copy, removed without being timed."""

import ctypes
import os
import shutil
import time

from testbed.errors import NotRun

CACHESTAT = 451
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
CHUNK_BYTES = 8 << 20
COLD_TIMEOUT_S = 3.0
# A few pages that somebody holds do not matter to a transfer; how many is in the result.
COLD_SHARE = 0.005


def make_source(path, size_bytes):
    """A file of bytes that no layer can compress or find to be zero; made anew only if its size is not the one wanted."""
    if os.path.exists(path) and os.path.getsize(path) == size_bytes:
        return path
    with open(path, "wb") as out:
        left = size_bytes
        while left:
            piece = min(left, CHUNK_BYTES)
            out.write(os.urandom(piece))
            left -= piece
        out.flush()
        os.fsync(out.fileno())
    return path


def use_memory(path, size_bytes):
    """Fill so much page cache and give it back.

    A virtual machine returns memory it has not used for some seconds to its host, and whoever needs it next waits for it: up to
    four times as long as the copy takes. Used just before a round, it is there for all subjects alike.
    """
    zeros = bytes(CHUNK_BYTES)
    try:
        with open(path, "wb") as out:
            for _ in range(size_bytes // CHUNK_BYTES):
                out.write(zeros)
    finally:
        if os.path.exists(path):
            os.unlink(path)


def make_small_files(directory, count, size_bytes, in_directory=100):
    """`count` files, a hundred (or `in_directory`) to a directory."""
    if os.path.exists(os.path.join(directory, "complete")):
        return os.path.join(directory, "files")
    shutil.rmtree(directory, ignore_errors=True)
    for number in range(count):
        parent = os.path.join(directory, "files", f"{number // in_directory:04}")
        os.makedirs(parent, exist_ok=True)
        with open(os.path.join(parent, f"{number:06}"), "wb") as out:
            out.write(os.urandom(size_bytes))
    with open(os.path.join(directory, "complete"), "w"):
        pass
    os.sync()
    return os.path.join(directory, "files")


def cached_share(paths):
    """The share of the files' allocated pages that the page cache holds, from cachestat(2); None where the kernel has none."""
    resident = total = 0
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            pages = _resident_pages(descriptor)
            status = os.fstat(descriptor)
        finally:
            os.close(descriptor)
        if pages is None:
            return None
        needed = -(-min(status.st_size, status.st_blocks * 512) // PAGE_BYTES)
        total += needed
        resident += min(pages, needed)
    return resident / total if total else 1.0


def _resident_pages(descriptor):
    what = (ctypes.c_uint64 * 2)(0, 0)
    answer = (ctypes.c_uint64 * 5)()
    libc = ctypes.CDLL(None, use_errno=True)
    failed = libc.syscall(CACHESTAT, descriptor, ctypes.byref(what), ctypes.byref(answer), 0)
    return None if failed else answer[0]


def warm(paths):
    """Read what is not in the page cache into it; returns the share cached afterwards (None: the kernel cannot say).

    Tried some times: a kernel that reclaims memory before it is short of it takes pages again meanwhile.
    """
    share = cached_share(paths)
    for _ in range(5):
        if share is not None and share >= 1.0:
            break
        for path in paths:
            with open(path, "rb", buffering=0) as source:
                while source.read(CHUNK_BYTES):
                    pass
        share = cached_share(paths)
    return share


def drop(path):
    """Have the kernel forget what it keeps of a file's bytes."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fdatasync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def make_cold(path):
    """Put a file's pages out of memory, and show that they are; returns the share that stayed (None: the kernel cannot say).

    A page that a server has just sent can be held by the network for a moment: it is tried again until it is free.
    """
    deadline = time.monotonic() + COLD_TIMEOUT_S
    while True:
        drop(path)
        share = cached_share([path])
        if share is None or share <= COLD_SHARE:
            return share
        if time.monotonic() > deadline:
            raise NotRun(f"{share:.1%} of {path} stays in memory: it cannot be read cold")
        time.sleep(0.01)


def give_back(path):
    """Remove a file whose space is wanted back although somebody still has it open."""
    if os.path.exists(path):
        os.truncate(path, 0)
        os.unlink(path)


def files_under(directory, at_least_bytes=1):
    """Regular files below a directory."""
    found = []
    for parent, _, names in os.walk(directory):
        for name in names:
            path = os.path.join(parent, name)
            if os.path.isfile(path) and os.path.getsize(path) >= at_least_bytes:
                found.append(path)
    return found


def same_bytes(one, other):
    """Whether two files are equal, byte for byte."""
    if os.path.getsize(one) != os.path.getsize(other):
        return False
    with open(one, "rb", buffering=0) as a, open(other, "rb", buffering=0) as b:
        while True:
            x, y = a.read(CHUNK_BYTES), b.read(CHUNK_BYTES)
            if x != y:
                return False
            if not x:
                return True


def remove(path):
    """Remove a file or a directory tree, if it is there."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)
