"""slowfuse.py MOUNT BACKING [work]: a FUSE file system with one file, `file`, of 8 MiB; its daemon does its work before each read.

It speaks the kernel's protocol itself, so that no library is needed. It ends, and is unmounted, at SIGTERM.
"""

import argparse
import array
import ctypes
import errno
import os
import signal
import socket
import stat
import struct
import subprocess
import sys

from work import Work, add_options

SIZE_BYTES = 8 << 20
READ_BYTES = 128 << 10
HEADER = struct.Struct("<IIQQIIII")
LOOKUP, FORGET, GETATTR, OPEN, READ, STATFS, RELEASE, INIT, OPENDIR, READDIR, RELEASEDIR = 1, 2, 3, 14, 15, 17, 18, 26, 27, 28, 29
ROOT, FILE = 1, 2
MNT_DETACH = 2


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mount")
    parser.add_argument("backing", help="not used: there is nothing behind the file")
    add_options(parser)
    options = parser.parse_args()
    os.makedirs(options.mount, exist_ok=True)
    device, unmount = (mounted if os.geteuid() == 0 else mounted_as_user)(options.mount)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    print("ready", flush=True)
    try:
        serve(device, Work(options))
    finally:
        unmount()


def mounted(point):
    """The device of the mount that root makes, and what ends it."""
    libc = ctypes.CDLL(None, use_errno=True)
    device = os.open("/dev/fuse", os.O_RDWR)
    how = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other,max_read={READ_BYTES}"
    if libc.mount(b"slowfuse", point.encode(), b"fuse.slowfuse", 0, how.encode()):
        sys.exit(os.strerror(ctypes.get_errno()))
    return device, lambda: libc.umount2(point.encode(), MNT_DETACH)


def mounted_as_user(point):
    """The same as an ordinary user has it: fusermount3 mounts, and sends the device."""
    ours, its = socket.socketpair()
    words = ["fusermount3", "-o", f"max_read={READ_BYTES},fsname=slowfuse,subtype=slowfuse", "--", point]
    subprocess.run(words, env={**os.environ, "_FUSE_COMMFD": str(its.fileno())}, pass_fds=[its.fileno()], check=True)
    numbers = array.array("i")
    _, held, _, _ = ours.recvmsg(1, socket.CMSG_LEN(numbers.itemsize))
    numbers.frombytes(held[0][2][: numbers.itemsize])
    return numbers[0], lambda: subprocess.run(["fusermount3", "-u", "-z", "--", point], check=False)


def serve(device, work):
    """Answer the kernel until the mount goes."""
    while True:
        try:
            message = os.read(device, 1 << 20)
        except OSError as reason:
            if reason.errno == errno.ENODEV:
                return
            raise
        _, code, unique, node = HEADER.unpack_from(message)[:4]
        if code == FORGET:
            continue
        answer = reply(code, node, message[HEADER.size :], work)
        failed = answer if isinstance(answer, int) else 0
        body = b"" if failed else answer
        os.write(device, struct.pack("<IiQ", 16 + len(body), -failed, unique) + body)


def reply(code, node, body, work):
    """The body of an answer, or an error's number."""
    if code == INIT:
        return struct.pack("<IIIIHHIIHHI", 7, 31, READ_BYTES, 0, 1, 1, 4096, 1, 0, 0, 0) + bytes(28)
    if code == LOOKUP:
        return struct.pack("<QQQQII", FILE, 0, 60, 60, 0, 0) + attributes(FILE) if body == b"file\0" else errno.ENOENT
    if code == GETATTR:
        return struct.pack("<QII", 60, 0, 0) + attributes(node)
    if code in (OPEN, OPENDIR):
        return struct.pack("<QII", 0, 0, 0)
    if code == READ:
        _, offset, size = struct.unpack_from("<QQI", body)
        work()
        return bytes(max(0, min(size, SIZE_BYTES - offset)))
    return b"" if code in (RELEASE, RELEASEDIR, READDIR) else errno.ENOSYS


def attributes(node):
    """Of the directory or of the file."""
    mode = stat.S_IFDIR | 0o755 if node == ROOT else stat.S_IFREG | 0o644
    size = 0 if node == ROOT else SIZE_BYTES
    return struct.pack("<QQQQQQIIIIIIIIII", node, size, (size + 511) // 512, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


if __name__ == "__main__":
    main()
