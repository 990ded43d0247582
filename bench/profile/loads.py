"""What is profiled: a server that is read from or written to, copy after copy, until it is told to stop.

A load is a shell's loop, so that nothing of the harness runs meanwhile; each copy it has finished is a line with the time. Sources
are in the page cache, targets are removed before each copy. Client and server share the machine, and the profile is of both.
"""

import os
import shlex
from contextlib import contextmanager
from dataclasses import dataclass

from testbed import files
from testbed.errors import Broken
from testbed.processes import Process
from testbed.servers.gridftp import GridFtp
from testbed.servers.nfs_ganesha import NfsGanesha
from testbed.store import Store

SIZE_BYTES = 1 << 30
STORE_SERVERS = 4
STREAMS = 4
# Longer than any measurement: what is left running ends by itself.
MOST_S = 300
TREE = "/usr/lib"


@dataclass
class Load:
    """A load by name: what is done, whose code is `program`, and on which ports its server listens."""

    name: str
    title: str
    make: callable
    server: str = None


@dataclass
class Running:
    """A load at work."""

    process: Process
    ports: list
    size_bytes: int
    # Processes of the server, and the name of those it makes for each transfer.
    pids: list
    comm: str = None

    def rate(self, start_s, end_s):
        """Bytes a second between the first and the last copy that ended within these times since boot; None with fewer than two."""
        ends = [float(line.split()[1]) for line in self.process.output().splitlines() if line.startswith("copied ")]
        ends = [end for end in ends if start_s <= end <= end_s]
        return (len(ends) - 1) * self.size_bytes / (ends[-1] - ends[0]) if self.size_bytes and len(ends) > 1 else None

    def is_own(self, sample):
        """Whether a sample is of the server; without a server every program is."""
        return not self.ports or sample.pid in self.pids or (self.comm is not None and sample.comm == self.comm)


@contextmanager
def loop(work, copy, remove):
    """Runs `remove; copy` again and again while the body runs."""
    os.makedirs(work, exist_ok=True)
    stop, end = os.path.join(work, "stop"), f"$(($(cut -d. -f1 /proc/uptime) + {MOST_S}))"
    lines = [f"end={end}", "read now rest < /proc/uptime", f'while [ ! -e {stop} ] && [ "${{now%.*}}" -lt "$end" ]; do']
    lines += [remove, f"{copy} || exit 1", "read now rest < /proc/uptime", 'echo "copied $now"', "done"]
    script = os.path.join(work, "loop.sh")
    with open(script, "w") as out:
        out.write("\n".join(lines) + "\n")
    process = Process(["sh", script], os.path.join(work, "loop.log"))
    try:
        process.wait_for_word("the first copy", "copied ", Broken)
        yield process
        if not process.is_running:
            raise Broken(f"the load ended with code {process.process.returncode}: {process.last_line()}")
    finally:
        process.stop()


@contextmanager
def gridftp(bench, direction):
    """`globus-url-copy` with 4 streams."""
    work, source = bench.work(), bench.source(SIZE_BYTES)
    with GridFtp(os.path.join(work, "server")) as server:
        target = os.path.join(work, "target")
        ways = {"read": (server.address(source), f"file://{target}"), "write": (f"file://{source}", server.address(target))}
        copy = shlex.join(["globus-url-copy", "-p", str(STREAMS), "-tcp-bs", "1048576", *ways[direction]])
        with loop(os.path.join(work, "load"), copy, f"rm -f {target}") as process:
            yield Running(process, [server.port], SIZE_BYTES, [server.process.pid], "globus-gridftp-")


@contextmanager
def nfs(bench, direction):
    """`nfs-cp` from or to NFS-Ganesha. Ganesha keeps removed files: each copy has a name of its own."""
    work, source = bench.work(), bench.source(SIZE_BYTES)
    with NfsGanesha(os.path.join(work, "server")) as server:
        number, target = "$number", os.path.join(work, "target")
        if direction == "read":
            os.link(source, os.path.join(server.root, "source"))
            remove, copy = f"rm -f {target}", shlex.join(["nfs-cp", server.address("source"), target])
        else:
            made = os.path.join(server.root, "target-")
            url = server.address("target-NUMBER").replace("NUMBER", f"'{number}'")
            gone = f'[ ! -e {made}{number} ] || {{ : > {made}{number}; rm {made}{number}; }}; number=$((number + 1))'
            remove, copy = gone, f"nfs-cp {source} '{url}'"
        with loop(os.path.join(work, "load"), copy, remove) as process:
            yield Running(process, [server.port], SIZE_BYTES, [server.process.pid])


@contextmanager
def store(bench, direction):
    """`thalweg cp` from or to `thalweg up`."""
    work, source, program = bench.work(), bench.source(SIZE_BYTES), bench.program
    with Store(program, [os.path.join(work, "store")], os.path.join(work, "store.log"), flags=["--servers", STORE_SERVERS]) as served:
        target, url = os.path.join(work, "target"), served.url("file")
        remove, ends = "", [source, url]
        if direction == "read":
            served.run("cp", source, url)
            remove, ends = f"rm -f {target}", [url, target]
        copy = shlex.join([program, "cp", "--force", *ends]) + " > /dev/null 2>&1"
        with loop(os.path.join(work, "load"), copy, remove) as process:
            port = int(served.address.rpartition(":")[2])
            yield Running(process, [port], SIZE_BYTES, [served.process.pid])


@contextmanager
def tar_gzip(bench, _):
    """A tree into a compressed archive, on one pipe."""
    work = bench.work()
    target = os.path.join(work, "archive.tgz")
    # One pass takes longer than a measurement: the load is ended in the middle.
    command = f"echo copied 0; while :; do tar --create --one-file-system --directory {TREE} . 2>/dev/null | gzip > {target} || exit 1; done"
    process = Process(["timeout", str(MOST_S), "sh", "-c", command], os.path.join(work, "load.log"))
    try:
        process.wait_for_word("tar", "copied ", Broken)
        yield Running(process, [], 0, [])
        if not process.is_running:
            raise Broken(f"the load ended: {process.last_line()}")
    finally:
        process.stop()
        files.remove(target)


LOADS = [
    Load("gridftp-read", "GridFTP, read from", lambda bench: gridftp(bench, "read"), "gridftp"),
    Load("gridftp-write", "GridFTP, written to", lambda bench: gridftp(bench, "write"), "gridftp"),
    Load("nfs-read", "NFS-Ganesha, read from", lambda bench: nfs(bench, "read"), "nfs"),
    Load("nfs-write", "NFS-Ganesha, written to", lambda bench: nfs(bench, "write"), "nfs"),
    Load("store-read", "our store, read from", lambda bench: store(bench, "read"), "store"),
    Load("store-write", "our store, written to", lambda bench: store(bench, "write"), "store"),
    Load("tar-gzip", "`tar | gzip`", lambda bench: tar_gzip(bench, None)),
]
