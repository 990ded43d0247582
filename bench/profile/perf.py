"""`perf record` beside the profile, and a reader of the file it writes.

The same event as the profile's: cpu-clock with a fixed period of 1 ms, on all processors, with stacks. Both are interrupts, so both
see nothing of interrupts and of code that runs with them off: that they agree proves nothing about that.

The file is read here, since `perf script` 6.1 smashes its stack at files with long build identifiers. Of a program the file that an
address is in is enough; names of the kernel are looked up in /proc/kallsyms.
"""

import bisect
import signal
import struct
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass

from bench.profile.rules import USER_ADDRESSES, Frame
from testbed import shell
from testbed.errors import Broken, NotRun
from testbed.packages import install
from testbed.processes import STOP_TIMEOUT_S, Process

PERIOD_NS = 1_003_009
# Without build identifiers: see above.
RECORD = ["perf", "record", "--all-cpus", "--event", "cpu-clock", "--count", str(PERIOD_NS), "-g", "--clockid", "CLOCK_MONOTONIC", "--no-buildid"]
PACKAGES = {"linux-perf": "perf"}
SOFTIRQ = {"handle_softirqs", "__do_softirq"}

# linux/perf_event.h: records, and what samples have, in the order in which they have it.
MMAP, COMM, FORK, SAMPLE, MMAP2 = 1, 3, 7, 9, 10
IP, TID, TIME, CALLCHAIN, ID, CPU, PERIOD, STREAM_ID, IDENTIFIER = (1 << bit for bit in (0, 1, 2, 5, 6, 7, 8, 9, 16))
ADDRESS = 1 << 3
KNOWN = IP | TID | TIME | ADDRESS | CALLCHAIN | ID | CPU | PERIOD | STREAM_ID | IDENTIFIER
MISC_EXEC = 1 << 13
# Marks within a stack, which stand for no function.
FIRST_MARK = (1 << 64) - 4096


@dataclass
class Sample:
    """What ran on a processor when its clock rang; functions innermost first."""

    comm: str
    pid: int
    at_ns: int
    frames: list

    @property
    def is_idle(self):
        """The idle task itself: a software interrupt that came over it is work."""
        return self.pid == 0 and not any(frame.name in SOFTIRQ for frame in self.frames)


@contextmanager
def recording(path, log):
    """`perf record` while the body runs."""
    install(PACKAGES)
    perf = Process([*RECORD, "--output", path], log)
    try:
        perf.wait_until("perf record", lambda: "[perf_event]" in (shell.read(f"/proc/{perf.pid}/maps") or ""), NotRun)
        yield perf
        # It writes what it has when it is interrupted, and ends.
        perf.signal(signal.SIGINT)
        try:
            perf.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise Broken(f"perf record did not end when it was asked to: {perf.last_line()}") from None
        if "Captured and wrote" not in perf.output():
            raise Broken(f"perf record left no samples: {perf.last_line()}")
    finally:
        perf.stop()


def samples(path, names=None):
    """The samples of a file, in order of time."""
    with open(path, "rb") as source:
        data = source.read()
    kind, records = read(data)
    spaces, names = Spaces(), names or Names()
    for at_ns, record in sorted(((time_of(record, kind), record) for record in records), key=lambda pair: pair[0]):
        number = record[0]
        if number == SAMPLE:
            yield sample(record[2], kind, at_ns, spaces, names)
        else:
            spaces.take(*record)


def read(data):
    """What samples have, and all records: (type, misc, body)."""
    magic, _, attribute_size, attributes, _, start, size = struct.unpack_from("<8s6Q", data)
    if magic != b"PERFILE2" or not size or not attribute_size:
        raise Broken("this is not a whole file of perf record")
    kind = struct.unpack_from("<Q", data, attributes + 24)[0]
    if kind & ~KNOWN or not kind & TIME or not kind & CALLCHAIN:
        raise Broken(f"perf's samples have {kind:#x}, and this reader knows {KNOWN:#x}")
    records, at = [], start
    while at + 8 <= start + size:
        number, misc, length = struct.unpack_from("<IHH", data, at)
        if length < 8:
            raise Broken(f"a record of {length} bytes at {at}")
        if number in (MMAP, COMM, FORK, SAMPLE, MMAP2):
            records.append((number, misc, data[at + 8 : at + length]))
        at += length
    return kind, records


def time_of(record, kind):
    """When: samples have it near their beginning, other records near their end. Those that perf makes up at its beginning have 0."""
    number, _, body = record
    if number == SAMPLE:
        return struct.unpack_from("<Q", body, 8 * sum(bool(kind & bit) for bit in (IDENTIFIER, IP, TID)))[0]
    after = 8 * sum(bool(kind & bit) for bit in (TIME, ID, STREAM_ID, CPU, IDENTIFIER))
    return struct.unpack_from("<Q", body, len(body) - after)[0] if len(body) >= after else 0


def sample(body, kind, at_ns, spaces, names):
    """A sample from its record."""
    pid, tid = struct.unpack_from("<II", body, 8 * sum(bool(kind & bit) for bit in (IDENTIFIER, IP)))
    at = 8 * sum(bool(kind & bit) for bit in (IDENTIFIER, IP, TID, TIME, ADDRESS, ID, STREAM_ID, CPU, PERIOD))
    count = struct.unpack_from("<Q", body, at)[0]
    addresses = [address for address in struct.unpack_from(f"<{count}Q", body, at + 8) if address < FIRST_MARK]
    frames, was_kernel = [], None
    for address in addresses:
        is_kernel = address >= USER_ADDRESSES
        # All but the innermost of each part are return addresses: the call is before.
        address -= is_kernel == was_kernel
        frames.append(Frame(*names.of(address), True) if is_kernel else Frame(None, spaces.module(pid, address), False))
        was_kernel = is_kernel
    return Sample(spaces.comms.get(tid, ""), pid, at_ns, frames)


class Spaces:
    """What is mapped where in each process, and what threads are called."""

    def __init__(self):
        self.maps = {}
        self.comms = {}

    def take(self, number, misc, body):
        """A record that changes something."""
        pid, second = struct.unpack_from("<II", body)
        if number == FORK:
            tid, parent_tid = struct.unpack_from("<II", body, 8)
            self.comms[tid] = self.comms.get(parent_tid, "")
            if pid != second:
                self.maps[pid] = list(self.maps.get(second, []))
        elif number == COMM:
            self.comms[second] = text(body[8:])
            if misc & MISC_EXEC:
                self.maps[pid] = []
        else:
            start, length = struct.unpack_from("<QQ", body, 8)
            self.maps.setdefault(pid, []).append((start, start + length, text(body[(64 if number == MMAP2 else 32) :])))

    def module(self, pid, address):
        """The module of an address of a program, as rules have it; what was mapped last counts."""
        name = next((name for start, end, name in reversed(self.maps.get(pid, [])) if start <= address < end), None)
        if name is None:
            return "unknown"
        return {"[vdso]": "vdso", "//anon": "jit"}.get(name, name.removesuffix(" (deleted)"))


def text(body):
    return body.split(b"\0", 1)[0].decode(errors="replace")


class Names:
    """The kernel's functions, from /proc/kallsyms."""

    def __init__(self, listed=None):
        symbols = []
        for line in (shell.read("/proc/kallsyms") if listed is None else listed).splitlines():
            address, kind, name, *module = line.split()
            if kind in "tTwW":
                symbols.append((int(address, 16), name, module[0].strip("[]") if module else "kernel"))
        self.symbols = sorted(symbols, key=lambda symbol: symbol[0])
        self.addresses = [symbol[0] for symbol in self.symbols]

    def of(self, address):
        """Name and module of the function that has an address."""
        at = bisect.bisect_right(self.addresses, address) - 1
        # Programs of BPF are listed as a module of that name.
        _, name, module = self.symbols[at] if at >= 0 else (0, None, "kernel")
        return name, "kernel" if module == "bpf" else module
