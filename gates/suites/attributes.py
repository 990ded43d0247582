"""What the suites of others leave out: extended attributes, hard links, special files, holes, preallocation, limits of names, statfs."""

import ctypes
import errno
import fcntl
import os
import stat

from gates.harness.case import attempt
from testbed.errors import Broken, NotRun

TITLE = "extended attributes, links, holes, limits"
SHORT_S = 10
ORDER = 15

KEEP_SIZE, PUNCH_HOLE, COLLAPSE, ZERO_RANGE = 1, 2, 8, 16
LIBC = ctypes.CDLL(None, use_errno=True)
RENAME_NOREPLACE, RENAME_EXCHANGE = 1, 2


def cases(fixture):
    """One case for each thing."""
    checks = [
        ("extended attributes are set, listed, replaced and removed", _extended),
        ("extended attributes have limits with the right errors", _extended_limits),
        ("extended attributes of symbolic links and other users are refused", _extended_refused),
        ("two names of a file are one file", _hard_links),
        ("a file without a name lives until it is closed", _orphan),
        ("a name of 255 bytes, and none of 256", _long_names),
        ("paths of 4,000 bytes", _long_paths),
        ("names with any bytes", _any_bytes),
        ("holes are punched, found, and read as zeros", _holes),
        ("preallocated ranges count, and read as zeros", _preallocation),
        ("renameat2: not replacing, and exchanging", _rename_flags),
        ("a directory is moved over an empty one only", _rename_directories),
        ("loops and dangling symbolic links", _symbolic_links),
        ("a FIFO connects two processes", _fifo),
        ("statfs says how much room there is", _room),
        ("offsets beyond 4 GiB", _far),
        ("an append goes to the end though the descriptor was moved", _append),
        ("O_TRUNC, O_EXCL, O_DIRECTORY, O_NOFOLLOW", _open_flags),
        ("pwritev and preadv over many buffers", _vectors),
        ("times move when they must", _times),
        ("advisory locks by one client exclude each other", _locks),
        ("directories: many entries, seek and rewind", _directories),
        ("a socket in a directory accepts connections", _socket),
        ("O_TMPFILE is linked into place or refused", _temporary),
    ]
    for number, (name, function) in enumerate(checks):
        directory, _ = fixture.inside(f"a{number}")
        yield attempt(name, function, directory)


def _refused(wanted, function, *arguments, **named):
    """The call fails with one of these errors."""
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    try:
        function(*arguments, **named)
    except OSError as why:
        if why.errno in wanted:
            return
        raise Broken(f"{function.__name__} fails with {errno.errorcode[why.errno]}, not {errno.errorcode[wanted[0]]}") from None
    raise Broken(f"{function.__name__} works, and must fail with {errno.errorcode[wanted[0]]}")


def _equal(what, found, wanted):
    if found != wanted:
        raise Broken(f"{what} is {str(found)[:120]}, not {str(wanted)[:120]}")


def _file(directory, name="file", data=b""):
    path = os.path.join(directory, name)
    with open(path, "wb") as out:
        out.write(data)
    return path


def _extended(directory):
    for path in (_file(directory), directory):
        os.setxattr(path, "user.one", b"1")
        os.setxattr(path, "user.two", b"")
        _equal("user.one", os.getxattr(path, "user.one"), b"1")
        _equal("user.two", os.getxattr(path, "user.two"), b"")
        _equal("the list", sorted(os.listxattr(path)), ["user.one", "user.two"])
        _refused(errno.EEXIST, os.setxattr, path, "user.one", b"x", os.XATTR_CREATE)
        os.setxattr(path, "user.one", bytes(range(256)) * 8, os.XATTR_REPLACE)
        _refused(errno.ENODATA, os.setxattr, path, "user.three", b"x", os.XATTR_REPLACE)
        _equal("user.one", os.getxattr(path, "user.one"), bytes(range(256)) * 8)
        os.removexattr(path, "user.one")
        _refused(errno.ENODATA, os.getxattr, path, "user.one")
        _refused(errno.ENODATA, os.removexattr, path, "user.one")
    path = os.path.join(directory, "file")
    os.rename(path, path + "2")
    _equal("the list after a rename", os.listxattr(path + "2"), ["user.two"])
    return 20


def _extended_limits(directory):
    path = _file(directory)
    os.setxattr(path, "user." + "n" * 250, b"v")
    _refused(errno.ERANGE, os.setxattr, path, "user." + "n" * 251, b"v")
    os.setxattr(path, "user.large", b"v" * 3000)
    _equal("a large value", os.getxattr(path, "user.large"), b"v" * 3000)
    _refused((errno.E2BIG, errno.ENOSPC), os.setxattr, path, "user.larger", b"v" * 65537)
    _refused((errno.EOPNOTSUPP, errno.EINVAL), os.setxattr, path, "nonsense.name", b"v")
    size = LIBC.getxattr(os.fsencode(path), b"user.large", None, 0)
    _equal("the size that is asked for", size, 3000)
    _equal("a buffer that is too small", LIBC.getxattr(os.fsencode(path), b"user.large", ctypes.create_string_buffer(10), 10), -1)
    _equal("its error", ctypes.get_errno(), errno.ERANGE)
    return 9


def _extended_refused(directory):
    os.symlink("nowhere", os.path.join(directory, "link"))
    _refused(errno.EPERM, os.setxattr, os.path.join(directory, "link"), "user.x", b"", follow_symlinks=False)
    if os.geteuid() == 0:
        path = _file(directory)
        os.chmod(path, 0o600)
        os.setxattr(path, "trusted.x", b"t")
        _equal("trusted.x", os.getxattr(path, "trusted.x"), b"t")
        _as_nobody(lambda: _refused(errno.EACCES, os.setxattr, path, "user.x", b""))
        _as_nobody(lambda: _refused(errno.EACCES, os.getxattr, path, "user.x"))
        os.setxattr(path, "security.gate", b"s")
        _equal("security.gate", os.getxattr(path, "security.gate"), b"s")
    return 5


def _as_nobody(function):
    os.seteuid(65534)
    try:
        function()
    finally:
        os.seteuid(0)


def _hard_links(directory):
    path = _file(directory, data=b"one")
    for number in range(50):
        os.link(path, f"{path}{number}")
    _equal("the number of links", os.stat(path).st_nlink, 51)
    with open(f"{path}7", "ab") as out:
        out.write(b" and more")
    with open(path, "rb") as source:
        _equal("what the other name reads", source.read(), b"one and more")
    _equal("both numbers", os.stat(f"{path}3").st_ino, os.stat(path).st_ino)
    os.chmod(f"{path}3", 0o600)
    _equal("the mode by another name", stat.S_IMODE(os.stat(path).st_mode), 0o600)
    os.unlink(path)
    os.rename(f"{path}1", f"{path}2")
    _equal("both names after a rename of one onto the other", sorted(os.listdir(directory))[:4], ["file0", "file1", "file10", "file11"])
    _refused(errno.EPERM, os.link, directory, path)
    os.symlink("nowhere", path)
    os.link(path, path + "s", follow_symlinks=False)
    _equal("a second name of a symbolic link", os.readlink(path + "s"), "nowhere")
    return 9


def _orphan(directory):
    descriptor = os.open(_file(directory, data=b"bytes"), os.O_RDWR)
    os.unlink(os.path.join(directory, "file"))
    _equal("links", os.fstat(descriptor).st_nlink, 0)
    os.pwrite(descriptor, b"B", 0)
    os.fchmod(descriptor, 0o600)
    os.ftruncate(descriptor, 3)
    os.fsync(descriptor)
    _equal("what it reads", os.pread(descriptor, 9, 0), b"Byt")
    _equal("the mode", stat.S_IMODE(os.fstat(descriptor).st_mode), 0o600)
    again = os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY)
    _equal("opened again by its descriptor", os.read(again, 9), b"Byt")
    os.close(again)
    os.close(descriptor)
    directory_held = os.open(directory, os.O_DIRECTORY)
    inner = os.path.join(directory, "inner")
    os.mkdir(inner)
    held = os.open(inner, os.O_DIRECTORY)
    os.rmdir(inner)
    _refused(errno.ENOENT, os.mkdir, "x", dir_fd=held)
    _equal("a removed directory's entries", os.listdir(held), [])
    os.close(held)
    os.close(directory_held)
    return 8


def _long_names(directory):
    name = "n" * 255
    path = _file(directory, name, b"x")
    _equal("the listing", os.listdir(directory), [name])
    os.rename(path, os.path.join(directory, "m" * 255))
    _refused(errno.ENAMETOOLONG, os.mkdir, os.path.join(directory, "n" * 256))
    _refused(errno.ENAMETOOLONG, os.stat, os.path.join(directory, "n" * 256))
    _refused(errno.ENAMETOOLONG, os.symlink, "x" * 4096, os.path.join(directory, "s"))
    os.symlink("x" * 4095, os.path.join(directory, "s"))
    _equal("a target of 4,095 bytes", len(os.readlink(os.path.join(directory, "s"))), 4095)
    return 6


def _long_paths(directory):
    held = os.open(directory, os.O_DIRECTORY)
    for _ in range(40):
        os.mkdir("d" * 200, dir_fd=held)
        inner = os.open("d" * 200, os.O_DIRECTORY, dir_fd=held)
        os.close(held)
        held = inner
    descriptor = os.open("file", os.O_CREAT | os.O_RDWR, dir_fd=held)
    os.write(descriptor, b"deep")
    _equal("a file 40 directories and 8,000 bytes down", os.pread(descriptor, 9, 0), b"deep")
    os.close(descriptor)
    os.close(held)
    return 1


def _any_bytes(directory):
    names = [bytes([first, second]) for first in (1, 10, 32, 92, 127, 200, 255) for second in range(1, 256) if second != 47]
    for name in names:
        os.close(os.open(os.path.join(os.fsencode(directory), name), os.O_CREAT))
    _equal("the listing", sorted(os.listdir(os.fsencode(directory))), sorted(names))
    return len(names)


def _fallocate(descriptor, mode, offset, length):
    if LIBC.fallocate(descriptor, mode, ctypes.c_long(offset), ctypes.c_long(length)) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _holes(directory):
    path = _file(directory, data=b"x" * (4 << 20))
    descriptor = os.open(path, os.O_RDWR)
    os.fsync(descriptor)
    before = os.fstat(descriptor).st_blocks
    _fallocate(descriptor, PUNCH_HOLE | KEEP_SIZE, 1 << 20, 2 << 20)
    os.fsync(descriptor)
    _equal("the size", os.fstat(descriptor).st_size, 4 << 20)
    _equal("the hole", os.pread(descriptor, 2 << 20, 1 << 20), bytes(2 << 20))
    _equal("the byte before", os.pread(descriptor, 1, (1 << 20) - 1), b"x")
    _equal("the byte behind", os.pread(descriptor, 1, 3 << 20), b"x")
    if os.fstat(descriptor).st_blocks >= before:
        raise Broken(f"the file takes {os.fstat(descriptor).st_blocks} blocks, as many as before the hole ({before})")
    # A file system may report a hole later or not at all, but never data as a hole.
    hole = os.lseek(descriptor, 0, os.SEEK_HOLE)
    if not 1 << 20 <= hole <= 4 << 20:
        raise Broken(f"the first hole is said to begin at {hole}")
    if hole < 4 << 20:
        data = os.lseek(descriptor, hole, os.SEEK_DATA)
        if data > 3 << 20:
            raise Broken(f"data after the hole is said to begin at {data}")
    _equal("data at 0", os.lseek(descriptor, 0, os.SEEK_DATA), 0)
    _refused(errno.ENXIO, os.lseek, descriptor, 4 << 20, os.SEEK_DATA)
    _refused(errno.ENXIO, os.lseek, descriptor, 4 << 20, os.SEEK_HOLE)
    _fallocate(descriptor, PUNCH_HOLE | KEEP_SIZE, 100, 7)
    _equal("a small hole", os.pread(descriptor, 9, 99), b"x" + bytes(7) + b"x")
    os.close(descriptor)
    sparse = os.path.join(directory, "sparse")
    with open(sparse, "wb") as out:
        out.truncate(1 << 30)
        out.seek((1 << 30) - 1)
        out.write(b"e")
    if os.stat(sparse).st_blocks * 512 > 1 << 20:
        raise Broken(f"a file of 1 GiB with one byte takes {os.stat(sparse).st_blocks * 512} bytes")
    with open(sparse, "rb") as source:
        source.seek(500 << 20)
        _equal("the middle of a hole", source.read(1 << 20), bytes(1 << 20))
    return 12


def _preallocation(directory):
    descriptor = os.open(os.path.join(directory, "file"), os.O_CREAT | os.O_RDWR, 0o644)
    os.posix_fallocate(descriptor, 0, 1 << 20)
    _equal("the size", os.fstat(descriptor).st_size, 1 << 20)
    _equal("the bytes", os.pread(descriptor, 1 << 20, 0), bytes(1 << 20))
    if os.fstat(descriptor).st_blocks * 512 < 1 << 20:
        raise Broken(f"{os.fstat(descriptor).st_blocks} blocks are taken: nothing is reserved")
    _fallocate(descriptor, KEEP_SIZE, 1 << 20, 1 << 20)
    _equal("the size after reserving beyond the end", os.fstat(descriptor).st_size, 1 << 20)
    os.pwrite(descriptor, b"y" * 1000, 5000)
    try:
        _fallocate(descriptor, ZERO_RANGE, 5100, 100)
        _equal("a zeroed range", os.pread(descriptor, 102, 5099), b"y" + bytes(100) + b"y")
    except OSError as why:
        _equal("the error of zeroing", why.errno, errno.EOPNOTSUPP)
    try:
        _fallocate(descriptor, COLLAPSE, 0, 4096)
        _equal("the size after collapsing", os.fstat(descriptor).st_size, (1 << 20) - 4096)
    except OSError as why:
        _equal("the error of collapsing", why.errno, errno.EOPNOTSUPP)
    _refused(errno.EINVAL, _fallocate, descriptor, 0, 0, 0)
    read_only = os.open(os.path.join(directory, "file"), os.O_RDONLY)
    _refused(errno.EBADF, _fallocate, read_only, 0, 0, 1)
    os.close(read_only)
    os.close(descriptor)
    return 8


def renameat2(one, other, flags):
    """The system call, for which Python has no function."""
    if LIBC.renameat2(-100, os.fsencode(one), -100, os.fsencode(other), flags) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _rename_flags(directory):
    one, other = _file(directory, "one", b"1"), _file(directory, "other", b"22")
    _refused(errno.EEXIST, renameat2, one, other, RENAME_NOREPLACE)
    renameat2(one, one + "x", RENAME_NOREPLACE)
    renameat2(one + "x", other, RENAME_EXCHANGE)
    _equal("sizes after the exchange", (os.path.getsize(one + "x"), os.path.getsize(other)), (2, 1))
    os.mkdir(os.path.join(directory, "d"))
    _file(directory, "d/inner", b"333")
    renameat2(other, os.path.join(directory, "d"), RENAME_EXCHANGE)
    _equal("a directory's entry after the exchange", os.path.getsize(os.path.join(other, "inner")), 3)
    _equal("its parent's number", os.stat(os.path.join(other, "..")).st_ino, os.stat(directory).st_ino)
    _refused(errno.ENOENT, renameat2, one, other, RENAME_EXCHANGE)
    _refused(errno.EINVAL, renameat2, one + "x", other, RENAME_EXCHANGE | RENAME_NOREPLACE)
    return 6


def _rename_directories(directory):
    for name in ("a/b", "full/x", "empty"):
        os.makedirs(os.path.join(directory, name))
    a, full, empty = (os.path.join(directory, name) for name in ("a", "full", "empty"))
    _refused((errno.ENOTEMPTY, errno.EEXIST), os.rename, a, full)
    os.rename(a, empty)
    _equal("the entries", os.listdir(empty), ["b"])
    _refused(errno.EINVAL, os.rename, empty, os.path.join(empty, "b/c"))
    _refused((errno.EISDIR,), os.rename, _file(directory), empty)
    _refused((errno.ENOTDIR,), os.rename, empty, os.path.join(directory, "file"))
    _equal("the links of the parent", os.stat(directory).st_nlink in (1, 4), True)
    _refused((errno.ENOTEMPTY, errno.EEXIST), os.rmdir, full)
    return 6


def _symbolic_links(directory):
    one, other = os.path.join(directory, "one"), os.path.join(directory, "other")
    os.symlink(other, one)
    _refused(errno.ENOENT, os.stat, one)
    _equal("its length", os.lstat(one).st_size, len(other))
    os.symlink(one, other)
    _refused(errno.ELOOP, os.stat, one)
    os.unlink(other)
    _file(directory, "other", b"behind")
    with open(one, "rb") as source:
        _equal("what is behind it", source.read(), b"behind")
    _equal("the mode", stat.S_IMODE(os.lstat(one).st_mode), 0o777)
    _refused(errno.EEXIST, os.symlink, "x", one)
    os.utime(one, ns=(1, 2), follow_symlinks=False)
    _equal("its own time", os.lstat(one).st_mtime_ns, 2)
    return 7


def _fifo(directory):
    path = os.path.join(directory, "fifo")
    os.mkfifo(path, 0o600)
    child = os.fork()
    if child == 0:
        with open(path, "wb") as out:
            out.write(b"through")
        os._exit(0)
    with open(path, "rb") as source:
        _equal("what comes through", source.read(), b"through")
    os.waitpid(child, 0)
    if os.geteuid() == 0:
        os.mknod(os.path.join(directory, "null"), stat.S_IFCHR | 0o666, os.makedev(1, 3))
        known = os.stat(os.path.join(directory, "null"))
        _equal("the device", (stat.S_ISCHR(known.st_mode), known.st_rdev), (True, os.makedev(1, 3)))
    return 2


def _socket(directory):
    import socket

    # A socket's path is at most 107 bytes: from inside the directory.
    before = os.getcwd()
    os.chdir(directory)
    try:
        with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
            server.bind("s")
            server.listen(1)
            _equal("a socket", stat.S_ISSOCK(os.stat("s").st_mode), True)
            client.connect("s")
            peer, _ = server.accept()
            with peer:
                peer.send(b"hello")
                _equal("what comes through", client.recv(9), b"hello")
        os.unlink("s")
    finally:
        os.chdir(before)
    return 2


def _room(directory):
    told = os.statvfs(directory)
    if told.f_blocks == 0 or told.f_bfree > told.f_blocks or told.f_bavail > told.f_bfree:
        raise Broken(f"{told.f_blocks} blocks, {told.f_bfree} free, {told.f_bavail} available")
    _equal("the longest name", told.f_namemax, 255)
    return 2


def _far(directory):
    path = os.path.join(directory, "file")
    places = [0, (1 << 31) - 2, (1 << 32) - 2, (1 << 40) + 12345]
    with open(path, "wb") as out:
        for place in places:
            out.seek(place)
            out.write(b"here")
    with open(path, "rb") as source:
        for place in places:
            source.seek(place)
            _equal(f"at {place}", source.read(4), b"here")
    _equal("the size", os.path.getsize(path), places[-1] + 4)
    os.truncate(path, (1 << 32) + 1)
    with open(path, "rb") as source:
        source.seek((1 << 32) - 2)
        _equal("after truncating", source.read(9), b"her")
    _refused((errno.EFBIG, errno.EINVAL), os.truncate, path, (1 << 63) - 1)
    return 7


def _append(directory):
    path = _file(directory, data=b"12345")
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
    os.lseek(descriptor, 0, os.SEEK_SET)
    os.write(descriptor, b"6")
    with open(path, "ab") as other:
        other.write(b"7")
    os.write(descriptor, b"8")
    os.ftruncate(descriptor, 2)
    os.write(descriptor, b"9")
    os.close(descriptor)
    with open(path, "rb") as source:
        _equal("the file", source.read(), b"129")
    return 1


def _open_flags(directory):
    path = _file(directory, data=b"full")
    _refused(errno.EEXIST, os.open, path, os.O_CREAT | os.O_EXCL)
    _refused(errno.ENOTDIR, os.open, path, os.O_DIRECTORY)
    _refused(errno.EISDIR, os.open, directory, os.O_WRONLY)
    os.symlink("file", os.path.join(directory, "link"))
    _refused(errno.ELOOP, os.open, os.path.join(directory, "link"), os.O_NOFOLLOW)
    _refused(errno.EEXIST, os.open, os.path.join(directory, "link"), os.O_CREAT | os.O_EXCL)
    os.close(os.open(os.path.join(directory, "link"), os.O_WRONLY | os.O_TRUNC))
    _equal("the size after O_TRUNC", os.path.getsize(path), 0)
    os.close(os.open(os.path.join(directory, "none"), os.O_CREAT | os.O_WRONLY, 0o000))
    descriptor = os.open(os.path.join(directory, "ro"), os.O_CREAT | os.O_RDWR, 0o400)
    os.write(descriptor, b"x")
    os.close(descriptor)
    _equal("a file made without the right to write it", os.path.getsize(os.path.join(directory, "ro")), 1)
    return 8


def _vectors(directory):
    descriptor = os.open(os.path.join(directory, "file"), os.O_CREAT | os.O_RDWR)
    pieces = [bytes([number % 256]) * (number * 37 % 5000) for number in range(500)]
    written = os.pwritev(descriptor, pieces, 77)
    whole = b"".join(pieces)
    _equal("written", written, len(whole))
    buffers = [bytearray(4096) for _ in range(len(whole) // 4096 + 1)]
    _equal("read", os.preadv(descriptor, buffers, 77), len(whole))
    _equal("the bytes", b"".join(buffers)[: len(whole)], whole)
    os.close(descriptor)
    return 3


def _times(directory):
    import time

    path = _file(directory, data=b"x")
    before = os.stat(path)

    def after(what, function, *fields):
        nonlocal before
        time.sleep(0.02)
        function()
        now = os.stat(path)
        for field in ("st_mtime_ns", "st_ctime_ns"):
            moved = getattr(now, field) > getattr(before, field)
            if moved != (field in fields):
                raise Broken(f"{what}: {field} {'moves' if moved else 'stays'}")
        before = now

    def write():
        with open(path, "r+b") as out:
            out.write(b"y")

    both = ("st_mtime_ns", "st_ctime_ns")
    after("a write", write, *both)
    after("a truncation", lambda: os.truncate(path, 0), *both)
    after("a chmod", lambda: os.chmod(path, 0o600), "st_ctime_ns")
    after("a link", lambda: os.link(path, path + "2"), "st_ctime_ns")
    after("an unlink", lambda: os.unlink(path + "2"), "st_ctime_ns")
    after("setxattr", lambda: os.setxattr(path, "user.x", b""), "st_ctime_ns")
    after("a read", lambda: open(path, "rb").read())
    after("a stat", lambda: os.stat(path))
    descriptor = os.open(path, os.O_RDWR)
    os.write(descriptor, b"new")
    os.utime(descriptor, ns=(5, 6))
    os.close(descriptor)
    _equal("a time that was set after a write, when the file is closed", os.stat(path).st_mtime_ns, 6)
    return 10


def _locks(directory):
    path = _file(directory, data=b"x" * 100)
    held = os.open(path, os.O_RDWR)
    fcntl.lockf(held, fcntl.LOCK_EX, 10, 5)

    def elsewhere(function):
        """What another process gets: 0, or the error number."""
        child = os.fork()
        if child == 0:
            code = 0
            try:
                descriptor = os.open(path, os.O_RDWR)
                function(descriptor)
            except OSError as why:
                code = why.errno
            os._exit(code)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    now = fcntl.LOCK_EX | fcntl.LOCK_NB
    _equal("an overlapping range", elsewhere(lambda d: fcntl.lockf(d, now, 10, 14)) in (errno.EAGAIN, errno.EACCES), True)
    _equal("a neighbouring range", elsewhere(lambda d: fcntl.lockf(d, now, 5, 0)), 0)
    fcntl.lockf(held, fcntl.LOCK_UN, 3, 6)
    _equal("a range that was given back", elsewhere(lambda d: fcntl.lockf(d, now, 3, 6)), 0)
    fcntl.lockf(held, fcntl.LOCK_SH, 10, 5)
    _equal("a shared lock", elsewhere(lambda d: fcntl.lockf(d, fcntl.LOCK_SH | fcntl.LOCK_NB, 10, 5)), 0)
    fcntl.flock(held, fcntl.LOCK_EX)
    _equal("flock beside fcntl", elsewhere(lambda d: fcntl.flock(d, now)), errno.EAGAIN)
    os.close(os.open(path, os.O_RDONLY))
    _equal("fcntl locks after any descriptor was closed", elsewhere(lambda d: fcntl.lockf(d, now, 10, 5)), 0)
    _equal("flock after another descriptor was closed", elsewhere(lambda d: fcntl.flock(d, now)), errno.EAGAIN)
    os.close(held)
    _equal("flock after the descriptor was closed", elsewhere(lambda d: fcntl.flock(d, now)), 0)
    return 8


def _directories(directory):
    names = [f"entry-{number:05}-{'x' * (number % 100)}" for number in range(3000)]
    for name in names:
        os.mkdir(os.path.join(directory, name)) if name.endswith("5-") else os.close(os.open(os.path.join(directory, name), os.O_CREAT))
    _equal("the listing", sorted(os.listdir(directory)), sorted(names))
    with os.scandir(directory) as found:
        kinds = {entry.name: entry.is_dir(follow_symlinks=False) for entry in found}
    _equal("the kinds", kinds, {name: name.endswith("5-") for name in names})
    LIBC.opendir.restype = LIBC.readdir.restype = ctypes.c_void_p
    LIBC.telldir.restype = ctypes.c_long
    for call in (LIBC.readdir, LIBC.telldir, LIBC.rewinddir, LIBC.closedir):
        call.argtypes = [ctypes.c_void_p]
    LIBC.seekdir.argtypes = [ctypes.c_void_p, ctypes.c_long]
    stream = LIBC.opendir(os.fsencode(directory))

    def rest():
        found = []
        while entry := LIBC.readdir(stream):
            found.append(ctypes.string_at(entry + 19))
        return found

    for _ in range(1000):
        LIBC.readdir(stream)
    place = LIBC.telldir(stream)
    last = rest()
    LIBC.seekdir(stream, place)
    _equal("the entries after seekdir", rest(), last)
    LIBC.rewinddir(stream)
    _equal("the number of entries after rewinddir", len(rest()), len(names) + 2)
    LIBC.closedir(stream)
    for name in names[::2]:
        path = os.path.join(directory, name)
        os.rmdir(path) if name.endswith("5-") else os.unlink(path)
    _equal("the listing after half were removed", sorted(os.listdir(directory)), sorted(names[1::2]))
    return 5


def _temporary(directory):
    try:
        descriptor = os.open(directory, os.O_TMPFILE | os.O_RDWR, 0o600)
    except OSError as why:
        _equal("the error", why.errno, errno.EOPNOTSUPP)
        raise NotRun("this file system has no O_TMPFILE; programs make a file and remove its name") from None
    os.write(descriptor, b"nameless")
    follow = 0x400
    if LIBC.linkat(-100, f"/proc/self/fd/{descriptor}".encode(), -100, os.fsencode(os.path.join(directory, "named")), follow) != 0:
        raise OSError(ctypes.get_errno(), "linkat of a file without a name")
    os.close(descriptor)
    _equal("its size when it has a name", os.path.getsize(os.path.join(directory, "named")), 8)
    return 2
