#!/usr/bin/env python3
"""Record an MPI program whose ranks write and read one file of a store, each rank on a node of its own.

    ranks.py THALWEG RECORDING HINTS      HINTS as THALWEG_HINTS has them, like `thalweg_layout=local`

Two nodes are network namespaces on a bridge with links of 100 Mbit/s. On each there is an I/O server of the store over a disk of 40 MiB/s, its mount
and a rank; the program is mpi/examples/parts.c, compiled here. Needs root, MPICH, and the library of mpi/build (`make mpi`).
"""

import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.dont_write_bytecode = True

from testbed import shell  # noqa: E402
from testbed.disks import Disk  # noqa: E402
from testbed.errors import Broken, NotRun  # noqa: E402
from testbed.links import Bridge  # noqa: E402
from testbed.paths import REPOSITORY  # noqa: E402
from testbed.processes import Process  # noqa: E402
from testbed.scratch import Scratch  # noqa: E402
from testbed.undoing import Undoing  # noqa: E402

NODES = 2
LINK_BITS_PER_S = 100e6
DISK_BYTES_PER_S = 40 << 20
MEBIBYTES = 32
METADATA_PORT, SERVER_PORT = 7400, 7401
LIBRARIES = os.path.join(REPOSITORY, "mpi", "build")
HEAD = 'store = "1a7e000000000002"\nplain = true\n\n[metadata]\naddress = "{address}:{port}"\ndirectory = "{directory}/metadata"\nnode = "{node}"\n'
SERVER = '\n[[servers]]\nname = "io{number}"\nnode = "{node}"\naddress = "{address}:{port}"\ntargets = ["{directory}/{node}/target"]\n'
# A rank sees the mount of its node at the path that all ranks use.
ON_NODE = """#!/bin/sh
exec unshare --mount sh -c 'mount --bind {mounts}/n$PMI_RANK {here} && exec "$@"' on_node "$@"
"""


class Nodes(Undoing):
    """Entered, a store runs on the nodes and each has it mounted at `mounts`/NODE."""

    def __init__(self, thalweg, scratch):
        super().__init__()
        self.thalweg, self.directory = thalweg, scratch.directory
        self.mounts = os.path.join(self.directory, "mounts")
        self.store = os.path.join(self.directory, "store.toml")
        self.bridge = Bridge(scratch.name, [f"n{number}" for number in range(NODES)], LINK_BITS_PER_S)

    def _set_up(self):
        self.undo.enter_context(self.bridge)
        hosts = self.bridge.hosts
        disks = [Disk(host.name, self.directory) for host in hosts]
        for disk in disks:
            self.undo.callback(disk.remove)
            disk.make()
        first = {"address": hosts[0].address, "node": hosts[0].name, "directory": self.directory}
        with open(self.store, "w") as out:
            out.write(HEAD.format(port=METADATA_PORT, **first))
            for number, host in enumerate(hosts):
                out.write(SERVER.format(number=number, node=host.name, address=host.address, port=SERVER_PORT, directory=self.directory))
        for name, host in [("metadata", hosts[0]), *((f"io{number}", host) for number, host in enumerate(hosts))]:
            words = ["serve", "--initialise", "--store", self.store, "--name", name, "--beyond-loopback"]
            self._started(name, host, words).wait_for_word(f"server {name}", name)
        for disk in disks:
            disk.sync()
            disk.slow(read=DISK_BYTES_PER_S, write=DISK_BYTES_PER_S)
            self.undo.callback(disk.slow, read=0, write=0)
        for host in hosts:
            point = os.path.join(self.mounts, host.name)
            os.makedirs(point)
            mount = self._started(f"mount-{host.name}", host, ["mount", "--foreground", "--store", self.store, "--node", host.name, point])
            mount.wait_until(f"the mount at {point}", lambda point=point: point in shell.mount_points(), Broken)

    def _started(self, name, host, words):
        process = Process([self.thalweg, *words], os.path.join(self.directory, f"{name}.log"), host)
        self.undo.callback(process.stop)
        return process


def main():
    thalweg, recording, hints = sys.argv[1:]
    compiler = shutil.which("mpicc.mpich")
    if not compiler or not os.path.exists(os.path.join(LIBRARIES, "libthalweg-mpich.so")):
        raise NotRun("MPICH or the library of mpi/build is missing: make mpi")
    with Scratch("thalweg-ranks") as scratch, Nodes(thalweg, scratch) as nodes:
        here, program, on_node = (os.path.join(scratch.directory, name) for name in ("scratch", "parts", "on_node"))
        os.mkdir(here)
        with open(on_node, "w") as out:
            out.write(ON_NODE.format(mounts=nodes.mounts, here=here))
        os.chmod(on_node, 0o755)
        shell.run(compiler, "-O2", "-o", program, os.path.join(REPOSITORY, "mpi", "examples", "parts.c"))
        job = ["mpiexec.mpich", "-n", str(NODES), on_node]
        also = [word for host in nodes.bridge.hosts for word in ("--also", os.path.join(nodes.mounts, host.name))]
        words = [thalweg, "record", "--mpi=mpich", *also, "-o", recording, "--", *job, program, os.path.join(here, "field"), str(MEBIBYTES)]
        environment = {**os.environ, "THALWEG_HINTS": hints, "THALWEG_MPI_LIBRARY": LIBRARIES}
        return subprocess.run(words, env=environment, check=False).returncode


if __name__ == "__main__":
    try:
        sys.exit(main())
    except NotRun as reason:
        print(f"NOT RUN: {reason}", file=sys.stderr)
        sys.exit(3)
