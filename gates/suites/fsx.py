"""fsx: a random sequence of operations on one file, each read compared with what was written.

Every kind of operation is on: reads, writes, mapped reads and writes, truncation both ways, preallocation, holes, sendfile,
copy_file_range, advice, syncs, closing and opening. Configurations differ in the size of file and operations, in alignment, and in
what the kernel may keep; none is empty, since preallocating nothing is an error. A run is a case, its operations are the checks. The
seed is in the name: the same seed gives the same run.
"""

import os
import re
import time

from gates.harness.case import Done, attempt
from testbed.errors import Broken

TITLE = "random operations on a file, each read verified"
SHORT_S = 50
ORDER = 20

ALL = {
    "close_open": 1,
    "invalidate": 1,
    "mapread": 6,
    "mapwrite": 6,
    "read": 10,
    "write": 10,
    "truncate": 4,
    "fsync": 0.5,
    "fdatasync": 0.5,
    "posix_fallocate": 2,
    "punch_hole": 3,
    "sendfile": 2,
    "posix_fadvise": 1,
    "copy_file_range": 2,
}
FILES = {"mapread": 0, "mapwrite": 0, "invalidate": 0}
CONFIGURATIONS = {
    # name: largest file, smallest and largest operation, alignment, changes to the weights
    "everything": (256 << 10, 1, 64 << 10, 1, {}),
    "no mapping": (256 << 10, 1, 64 << 10, 1, FILES),
    "over many strips": (4 << 20, 1, 512 << 10, 1, {"truncate": 2}),
    "small": (40 << 10, 1, 3000, 1, {"close_open": 3}),
    "aligned": (1 << 20, 4096, 128 << 10, 4096, {}),
    "mapped mostly": (512 << 10, 1, 64 << 10, 1, {"mapread": 20, "mapwrite": 20, "close_open": 4}),
    "opened often": (256 << 10, 1, 64 << 10, 1, {"close_open": 20, "fsync": 0}),
    "large": (48 << 20, 1, 4 << 20, 1, {"mapread": 2, "mapwrite": 2, "truncate": 1}),
}
SHORT_ONES = {"everything": 2000, "no mapping": 1000, "over many strips": 750, "small": 750, "opened often": 500}
BATCH = 5000
# At the largest size it preallocates nothing now and then, which no file system does, and gives up: then another seed is taken.
EMPTY = re.compile(r"does not support posix_fallocate[^$]*POSIX_FALLOCATE.*\(\s*0x0 bytes\)\s*$")
STEP = re.compile(r"^\[\w+\s+fsx\]\s+(\d+)", re.MULTILINE)


def cases(fixture):
    """One case for each run."""
    program = fixture.crate("fsx")
    if fixture.short:
        for number, (name, operations) in enumerate(SHORT_ONES.items()):
            yield _case(fixture, program, name, operations, fixture.seed + number, 120)
        return
    deadline = time.monotonic() + float(os.environ.get("FSX_SECONDS", "600"))
    number = 0
    while number < len(CONFIGURATIONS) or time.monotonic() < deadline:
        name = list(CONFIGURATIONS)[number % len(CONFIGURATIONS)]
        yield _case(fixture, program, name, BATCH // 10 if name == "large" else BATCH, fixture.seed + number, 1800)
        number += 1


def _case(fixture, program, name, operations, seed, timeout_s):
    return attempt(f"{name}, seed {seed}", _run, fixture, program, name, operations, seed, timeout_s)


def _run(fixture, program, name, operations, seed, timeout_s, retries=0):
    length, least, most, align, changes = CONFIGURATIONS[name]
    weights = "".join(f"{key} = {value}\n" for key, value in {**ALL, **changes}.items())
    configuration = os.path.join(fixture.scratch, "fsx.toml")
    with open(configuration, "w") as out:
        out.write(f"flen = {length}\n[opsize]\nmin = {least}\nmax = {most}\nalign = {align}\n[weights]\n{weights}")
    file = os.path.join(fixture.path, f"fsx-{seed}")
    argv = [program, "-f", configuration, "-N", str(operations), "-S", str(seed), "-P", fixture.scratch, file]
    done = fixture.run(argv, timeout_s)
    if done.code is None:
        raise Broken(f"not done after {timeout_s} s: {done.last_lines()}")
    if done.code != 0 and EMPTY.search(done.output):
        os.remove(file)
        return _run(fixture, program, name, operations, seed + (1 << 32), timeout_s, retries + 1)
    if done.code != 0:
        steps = STEP.findall(done.output)
        raise Broken(f"exit code {done.code} at operation {steps[-1] if steps else '?'}: {_what(done)}")
    os.remove(file)
    return Done(operations, retries)


def _what(done):
    """The lines that say what was wrong, without the log of operations."""
    lines = [line for line in done.output.splitlines()[1:] if line.strip() and not STEP.match(line)]
    told = [line.strip() for line in done.output.splitlines() if re.search(r"ERROR|mismatch|unexpected|panicked|failed", line)]
    return " | ".join((told or lines)[:4])[:500] or done.last_lines()
