"""fio with verification: every block carries a checksum and where it belongs, and is read back and compared.

The engines are the ways in which programs do I/O: plain calls, vectors, asynchronous calls in the kernel, mapped memory; through the
page cache and around it; one file each and one file for all; written by one client and verified by the other.
"""

import json
import os

from gates.harness.case import attempt
from testbed.errors import Broken, NotRun

TITLE = "blocks with checksums, through every engine"
SHORT_S = 6
ORDER = 30

DIRECT = {"direct": 1, "iodepth": 16}
JOBS = {
    "sync, buffered, random": {"ioengine": "psync", "rw": "randwrite", "bsrange": "512-64k"},
    "sync, buffered, in order": {"ioengine": "psync", "rw": "write", "bs": "1m", "numjobs": 2},
    "sync, O_DIRECT, random": {"ioengine": "psync", "rw": "randwrite", "bs": "16k", "direct": 1},
    "libaio, O_DIRECT, deep": {"ioengine": "libaio", "rw": "randwrite", "bsrange": "4k-128k", **DIRECT},
    "libaio, O_DIRECT, in order": {"ioengine": "libaio", "rw": "write", "bs": "1m", "numjobs": 2, **DIRECT},
    "mapped": {"ioengine": "mmap", "rw": "randwrite", "bs": "4k"},
    "mapped, in order, synced": {"ioengine": "mmap", "rw": "write", "bs": "64k", "fsync": 32},
    "vectors, synced": {"ioengine": "pvsync2", "rw": "randwrite", "bs": "8k", "fdatasync": 64},
    "io_uring": {"ioengine": "io_uring", "rw": "randwrite", "bs": "16k", "iodepth": 8},
    "unaligned": {"ioengine": "psync", "rw": "randwrite", "bsrange": "600-70000", "bs_unaligned": 1},
    "reads and writes mixed": {"ioengine": "psync", "rw": "randrw", "bs": "16k", "verify_backlog": 64, "numjobs": 2},
    "preallocated": {"ioengine": "psync", "rw": "randwrite", "bs": "32k", "fallocate": "posix"},
    "truncated to size first": {"ioengine": "psync", "rw": "randwrite", "bs": "32k", "fallocate": "truncate"},
    "O_SYNC": {"ioengine": "psync", "rw": "randwrite", "bs": "64k", "sync": "sync"},
    "spliced": {"ioengine": "splice", "rw": "write", "bs": "64k"},
    "one file, four writers": {"ioengine": "psync", "rw": "randwrite", "bs": "16k", "shared": 4},
    "one file, four writers, O_DIRECT": {"ioengine": "libaio", "rw": "randwrite", "bs": "16k", "shared": 4, **DIRECT},
    "many small files": {"ioengine": "psync", "rw": "write", "bs": "4k", "nrfiles": 256, "filesize": "16k"},
}
SHORT_ONES = ["sync, buffered, random", "libaio, O_DIRECT, deep", "mapped", "unaligned", "one file, four writers", "many small files"]
SHORT_MIB = 16
LONG_MIB = 256


def cases(fixture):
    """One case for each job, and those in which the other client verifies."""
    fixture.debian(fio="fio")
    for name in SHORT_ONES if fixture.short else JOBS:
        yield attempt(name, _verified, fixture, name)
    for engine, options in (("psync", {}), ("libaio", DIRECT), ("mmap", {})) if not fixture.short else (("psync", {}),):
        yield attempt(f"{engine}, written here and verified there", _verified_there, fixture, engine, options)


def _arguments(fixture, job, directory, mib):
    job = dict(job)
    shared = job.pop("shared", 0)
    told = {"name": "gate", "directory": directory, "verify": "crc32c", "verify_fatal": 1, "verify_state_save": 0, "randseed": fixture.seed}
    told["size"] = f"{mib}m"
    if shared:
        told |= {"filename": "shared", "numjobs": shared, "size": f"{mib // shared}m", "offset_increment": f"{mib // shared}m"}
    told |= job
    return ["fio", "--output-format=json", "--group_reporting", *(f"--{key}={value}" for key, value in told.items())]


def _verified(fixture, name):
    mib = SHORT_MIB if fixture.short else LONG_MIB
    if "small files" in name:
        mib = min(mib, 8)
    directory, _ = fixture.inside(name.replace(" ", "-").replace(",", ""))
    return _run(fixture, _arguments(fixture, JOBS[name], directory, mib) + ["--do_verify=1"])


def _verified_there(fixture, engine, options):
    mib = SHORT_MIB if fixture.short else LONG_MIB
    here, there = fixture.inside(f"across-{engine}")
    job = {"ioengine": engine, "rw": "randwrite", "bs": "16k", **options}
    _run(fixture, _arguments(fixture, job, here, mib) + ["--do_verify=0"])
    return _run(fixture, _arguments(fixture, job, there, mib) + ["--verify_only"])


def _run(fixture, argv):
    """Blocks that were verified; `Broken` if one was not as written."""
    done = fixture.run(argv, 900, cwd=fixture.scratch)
    if done.code is None:
        raise Broken(f"not done after 900 s: {done.last_lines()}")
    if "engine" in done.output and ("not loadable" in done.output or "Operation not permitted" in done.output and "io_uring" in done.output):
        raise NotRun(done.last_lines(1))
    if done.code != 0 or "verify: bad" in done.output:
        told = [line for line in done.output.splitlines() if "fio:" in line or "verify" in line and "bad" in line]
        raise Broken(f"exit code {done.code}: {' | '.join(line.strip() for line in told[:3])[:500] or done.last_lines()}")
    text = done.output
    document = json.loads(text[text.index("\n{") :].rsplit("}", 1)[0] + "}")
    for job in document["jobs"]:
        if job["error"]:
            raise Broken(f"error {job['error']} ({os.strerror(job['error'])})")
    return sum(job["read"]["total_ios"] for job in document["jobs"])
