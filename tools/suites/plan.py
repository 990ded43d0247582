"""The suites of `make test`: which commands, in which order, with how much time.

Two lanes. Small suites, and those that wait for servers and processes most of their time, run two at a time; those that fill both
processors by themselves, or hold an explanation against what really happened, run after them, one by one. Each has a budget, what it should take
on two processors, and is ended at `LIMIT` times that: a suite that hangs is a failure with a name, and the rest still runs.
"""

import dataclasses
import os
import shutil
from dataclasses import dataclass

# Seconds from nothing on two processors; a suite that outgrows its own moves its long form to `make test-long`.
BUDGETS = {
    "compiling": 280,
    "end-to-end": 160,
    "recordings": 130,
    "store": 90,
    "mount": 60,
    "record": 60,
    "explain": 60,
    "others": 60,
    "doc": 20,
    "rooms": 30,
    "schedules": 60,
    "corpus": 60,
    "gallery": 30,
    "lab": 45,
    "mpi": 120,
    "gates": 110,
    "python": 170,
    "web": 90,
    "site": 60,
}
# A machine is slow, a neighbour is busy: a hang is what takes this many times its budget.
LIMIT = 6
# All of it, whatever hangs: less than what waits for it allows.
ALL_S = 45 * 60

# Scratch files are in memory where there is room for them: making names and bytes durable on a disk takes half the time of these suites,
# and no test can see that it happened. What records what disks do, and the demo, stay on a disk.
MEMORY, MEMORY_BYTES = "/dev/shm", 6 << 30
ON_DISK = ("record", "measure", "study", "recordings")
# These modules of the end-to-end program hold an explanation against what really happened: apart from those that mostly wait, of which
# several run at a time.
RECORDINGS = ("recording::", "demo::")
WAITING_AT_A_TIME = 6

# These test programs, and all of these packages, measure or watch what the whole machine does.
ALONE = ("end-to-end", "record", "measure", "study")


@dataclass
class Suite:
    """One command, and how its output counts: a Rust test program (`libtest`), one that writes its own counts, or one that passes whole."""

    name: str
    command: list
    budget: str
    kind: str = "whole"
    cwd: str = "."
    alone: bool = False
    in_memory: bool = False

    @property
    def limit_s(self):
        """When it is ended."""
        return LIMIT * BUDGETS[self.budget]


def scratch_in_memory():
    """Where scratch files are in memory; None where there is too little of it."""
    room = os.path.isdir(MEMORY) and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= MEMORY_BYTES
    with open("/proc/meminfo") as source:
        available = next((int(line.split()[1]) << 10 for line in source if line.startswith("MemAvailable:")), 0)
    return MEMORY if room and available >= 2 * MEMORY_BYTES else None


def of_program(artifact):
    """The suites of one test program that cargo built (a `compiler-artifact` message): one, or the two parts of the end-to-end program."""
    target, directory = artifact["target"], os.path.dirname(artifact["manifest_path"])
    package = os.path.basename(directory)
    is_unit = "test" not in target["kind"]
    name = package if is_unit else target["name"]
    # Promises of a crate in its name, other test programs by what they hold, unit tests as such.
    shown = f"{package}-unit" if is_unit else name if name == package or package == "cli" else f"{package}-{name}"
    budget = "end-to-end" if name == "end-to-end" else package if package in BUDGETS else "others"
    alone = name in ALONE or package in ALONE
    command = [artifact["executable"], "--show-output"]
    suite = Suite(shown, command, budget, "libtest", directory, alone, in_memory=name not in ON_DISK and package not in ON_DISK)
    if name != "end-to-end":
        return [suite]
    waiting = [*command, f"--test-threads={WAITING_AT_A_TIME}", *(word for module in RECORDINGS for word in ("--skip", module))]
    recordings = Suite("recordings", [*command, *RECORDINGS], "recordings", "libtest", directory, alone=True)
    return [dataclasses.replace(suite, command=waiting), recordings]


def scripts(target, counts):
    """The suites that are no Rust test programs: of Python rooms, of laboratories and gates in their short form."""
    thalweg = os.path.join(target, "debug", "thalweg")
    relay = os.path.join(target, "debug", "thalweg-relay")
    short = ["--quick", "--program", thalweg, "--counts", counts]
    return [
        Suite("schedules", ["tools/schedules", "--show-output"], "schedules", "libtest"),
        Suite("rooms", ["testbed/test", "--counts", counts], "rooms", "counts"),
        Suite("corpus", ["lab/corpus/score", "--program", thalweg, "--counts", counts], "corpus", "counts"),
        Suite("corpus-user", ["lab/corpus/score", "--directory", "lab/user/corpus", "--program", thalweg, "--counts", counts], "corpus", "counts"),
        Suite("gallery", ["lab/gallery/run", "--check", "--program", thalweg, "--counts", counts], "gallery", "counts"),
        Suite("python", ["python/tests/run", "--program", thalweg, "--counts", counts], "python", "counts", in_memory=True),
        Suite("web", ["web/test/run", "--counts", counts], "web", "counts"),
        # After the web suite, which installs what drives Chromium.
        Suite("site", ["testbed/test", "--counts", counts, "tools/site"], "site", "counts", alone=True),
        Suite("mpi", ["env", f"THALWEG={thalweg}", "mpi/tests/run", "--counts", counts], "mpi", "counts", in_memory=True),
        Suite("gates", ["gates/run", "--seed", "7", *short], "gates", "counts", alone=True),
        Suite("lab", ["sh", "-c", 'make -s -C lab && exec lab/run --relay "$0" "$@"', relay, *short], "lab", "counts", alone=True),
    ]


def in_order(suites):
    """First those that share the machine, longest first; then those that have it for themselves."""
    shared = sorted((s for s in suites if not s.alone), key=lambda suite: -BUDGETS[suite.budget])
    return shared, [suite for suite in suites if suite.alone]
