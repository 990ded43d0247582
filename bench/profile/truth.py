"""Truth by construction: a program that counts itself what it spends in each class (`spends.c`), under `thalweg profile`."""

import os
import shutil

from bench.profile import profiler
from testbed import shell
from testbed.errors import Broken, NotRun

MOST_POINTS = 2.0
SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "spends.c")
# A class of its own for code made at run time: without it, it is the program's.
RULES = "class jit: made at run time\njit[jit]:\n"
# What each part is a part of: by what ran or, in the kernel, by what it ran for. Loopback is a driver, too.
CLASSES_OF = {"spin": ["program"], "jit": ["jit"], "memcpy": ["libc"], "crc32": ["libraries"], "write": ["fs"], "send": ["net", "netdrv"], "fault": ["mm"]}
# The program's own function of each part: the little that it does besides is the part's, and not spinning.
FUNCTION_OF = {"memcpy": "copy", "crc32": "hash", "write": "write_file", "send": "send_over_loopback", "fault": "fault", "jit": "made"}
MIXES = [
    ("spin", {"spin": 60, "memcpy": 40}),
    ("jit", {"jit": 60, "spin": 40}),
    ("memcpy", {"memcpy": 60, "spin": 40}),
    ("crc32", {"crc32": 60, "spin": 40}),
    ("write", {"write": 60, "spin": 40}),
    ("send", {"send": 60, "spin": 40}),
    ("fault", {"fault": 60, "spin": 40}),
    ("all", {"spin": 10, "jit": 10, "memcpy": 15, "crc32": 10, "write": 20, "send": 20, "fault": 15}),
]


def measure(bench):
    """The line: for each mix and part, what the program counted and what the profile says, in percent of the program's time."""
    program, rules = build(bench), os.path.join(bench.directory, "jit.classes")
    with open(rules, "w") as out:
        out.write(RULES)
    mixes = [{"mix": name, "parts": one(bench, program, rules, name, mix)} for name, mix in MIXES]
    points = [abs(part["counted"] - part["profile"]) for mix in mixes for part in mix["parts"]]
    return {"title": "Truth by construction", "seconds": bench.seconds, "mixes": mixes, "worst_points": max(points), "met": max(points) <= MOST_POINTS}


def build(bench):
    """The program, made with the system's compiler."""
    compiler = shutil.which("cc")
    if not compiler:
        raise NotRun("there is no C compiler (apt-get install gcc libc6-dev)")
    program = os.path.join(bench.directory, "spends")
    shell.run(compiler, "-O2", "-Wall", "-Werror", "-o", program, SOURCE, "-ldl")
    return program


def one(bench, program, rules, name, mix):
    """A mix: its parts."""
    counts, recording = os.path.join(bench.work(), "counts"), bench.kept(f"truth-{name}.thw")
    words = [f"{part}={weight}" for part, weight in mix.items()]
    profile = profiler.Profile(bench, recording, words=["--classes", rules], command=[program, counts, str(bench.seconds), *words])
    document = profile.finish()
    counted = {line.split()[0]: int(line.split()[1]) for line in (shell.read(counts) or "").splitlines()}
    if set(counted) != set(mix):
        raise Broken(f"spends counted {sorted(counted)}, and was to spend {sorted(mix)}")
    # Of the program alone: what other programs have the kernel do is in the machine's classes.
    own = next(row for row in document["programs"] if row["program"] == os.path.basename(program) and row["role"] == "client")
    samples = {row["class"]: row["samples"] for row in own["for"]}
    code = {row["function"]: row["samples"] for row in document["functions"] if row["module"] == program}
    code = {part: code.get(FUNCTION_OF.get(part), 0) for part in mix}
    return [row(part, counted, samples, code, own["samples"]) for part in mix]


def row(part, counted, samples, code, whole):
    """A part: percent of the program's time as it counted, in its classes, and in the part's own code."""
    in_classes = sum(samples.get(name, 0) for name in CLASSES_OF[part])
    if part == "spin":
        in_classes -= sum(code.values())
    percent = 100.0 / whole
    return {
        "part": part,
        "classes": CLASSES_OF[part],
        "counted": 100.0 * counted[part] / sum(counted.values()),
        "in_classes": percent * in_classes,
        "in_own_code": percent * code[part],
        "profile": percent * (in_classes + code[part]),
        "samples": whole,
    }
