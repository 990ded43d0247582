"""`perf record` beside the profile, and its samples as `perf script` prints them.

The same event as the profile's: cpu-clock with a fixed period of 1 ms, on all processors, with stacks. Both are interrupts, so both
see nothing of interrupts and of code that runs with them off: that they agree proves nothing about that.
"""

import re
import signal
import subprocess
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field

from bench.profile.rules import USER_ADDRESSES, Frame
from testbed.errors import Broken, NotRun
from testbed.packages import install
from testbed.processes import STOP_TIMEOUT_S, Process

PERIOD_NS = 1_000_000
RECORD = ["perf", "record", "--all-cpus", "--event", "cpu-clock", "--count", str(PERIOD_NS), "-g", "--clockid", "CLOCK_MONOTONIC"]
# Inlined functions are left out: looking for them takes minutes, and rules are about functions that are called.
SCRIPT = ["perf", "script", "--no-inline", "--fields", "comm,pid,tid,cpu,time,ip,sym,dso", "--ns"]
SCRIPT_TIMEOUT_S = 300
PACKAGES = {"linux-perf": "perf"}
HEAD = re.compile(r"^(?P<comm>.*?)\s+(?P<pid>-?\d+)/(?P<tid>-?\d+)\s+\[(?P<cpu>\d+)\]\s+(?P<s>\d+)\.(?P<ns>\d{9}):\s*(?P<event>\S*)")
FRAME = re.compile(r"^\s+(?P<ip>[0-9a-f]+) (?P<symbol>.*) \((?P<module>.*)\)$")
SOFTIRQ = {"handle_softirqs", "__do_softirq", "__softirqentry_text_start"}


@dataclass
class Sample:
    """What ran on a processor when its clock rang; functions innermost first."""

    comm: str
    pid: int
    at_ns: int
    frames: list = field(default_factory=list)

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
        perf.wait_until("perf record", lambda: counts_on_all_processors(perf.pid), NotRun)
        yield perf
        # It writes what it has when it is interrupted, and ends.
        perf.signal(signal.SIGINT)
        try:
            perf.process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise Broken(f"perf record did not end when it was asked to: {perf.last_line()}") from None
    finally:
        perf.stop()


def counts_on_all_processors(pid):
    """Whether a perf has its events mapped: it begins to record then."""
    try:
        with open(f"/proc/{pid}/maps") as maps:
            return sum("[perf_event]" in line for line in maps) > 0
    except OSError:
        return False


def samples(path):
    """The samples of a recording of perf, in the order of its output."""
    with subprocess.Popen([*SCRIPT, "--input", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, errors="replace") as script:
        killer = _after(SCRIPT_TIMEOUT_S, script.kill)
        try:
            yield from parse(script.stdout)
        finally:
            killer.cancel()
            script.kill()


def _after(seconds, what):
    timer = threading.Timer(seconds, what)
    timer.daemon = True
    timer.start()
    return timer


def parse(lines):
    """Samples from the lines that `perf script` prints: a head, a line for each function, an empty line."""
    sample = None
    for line in lines:
        text = line.rstrip("\n")
        if not text:
            if sample and sample.frames:
                yield sample
            sample = None
        elif text[0].isspace() and sample:
            found = FRAME.match(text)
            if found:
                sample.frames.append(frame(found["ip"], found["symbol"], found["module"]))
        else:
            head = HEAD.match(text)
            event = head and head["event"]
            sample = Sample(head["comm"].strip(), int(head["pid"]), int(head["s"]) * 10**9 + int(head["ns"])) if head and not event else None
    if sample and sample.frames:
        yield sample


def frame(address, symbol, module):
    """A function as rules have it: perf writes modules of the kernel in brackets, and code that was made as the file of its names."""
    name = None if symbol == "[unknown]" else symbol
    is_kernel = int(address, 16) >= USER_ADDRESSES
    if is_kernel:
        kernel = module.startswith(("[kernel", "[guest.kernel", "bpf_")) or module == "[unknown]"
        return Frame(name, "kernel" if kernel else module.strip("[]"), True)
    if module.startswith("/tmp/perf-") or module.startswith(("[anon", "//anon")):
        return Frame(name, "jit", False)
    return Frame(name, {"[vdso]": "vdso", "[unknown]": "unknown"}.get(module, module.removesuffix(" (deleted)")), False)
