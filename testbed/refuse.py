"""refuse.py CALL COMMAND...: run a command for which the kernel refuses a system call with EACCES.

Debian's kernels refuse `perf_event_open` to ordinary users where kernel.perf_event_paranoid is 3, and Ubuntu's where it is 4. Other kernels take
these numbers and refuse nothing. So that both can be tried on any of them, root starts the command under a filter.
"""

import ctypes
import os
import platform
import struct
import sys

PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
EACCES = 13
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
# The architecture's audit number, and the calls' numbers.
MACHINES = {"x86_64": (0xC000003E, {"perf_event_open": 298}), "aarch64": (0xC00000B7, {"perf_event_open": 241})}
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
NUMBER_AT, ARCHITECTURE_AT = 0, 4


class Program(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]


def instructions(call, machine):
    """The filter, one instruction after another."""
    architecture, numbers = MACHINES[machine]
    steps = [
        (LOAD, 0, 0, ARCHITECTURE_AT),
        (EQUAL, 0, 3, architecture),
        (LOAD, 0, 0, NUMBER_AT),
        (EQUAL, 0, 1, numbers[call]),
        (RETURN, 0, 0, ERRNO | EACCES),
        (RETURN, 0, 0, ALLOW),
    ]
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def refuse(call):
    """Have the kernel refuse a call to this process and all it starts."""
    text = instructions(call, platform.machine())
    program = Program(len(text) // 8, text)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0):
        number = ctypes.get_errno()
        raise OSError(number, f"the filter that refuses {call}: {os.strerror(number)}; expected root, and a kernel with seccomp filters")


if __name__ == "__main__":
    try:
        refuse(sys.argv[1])
        os.execvp(sys.argv[2], sys.argv[2:])
    except (OSError, KeyError) as reason:
        sys.exit(f"refuse.py: {reason!s}")
