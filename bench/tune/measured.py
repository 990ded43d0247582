"""The paths that tuners are held against: each is a plan of real programs in one world, whose grid is measured whole, once."""

import glob
import os
import shlex
from dataclasses import dataclass, field

from bench.harness.world import World
from testbed import files, shell
from testbed.errors import NotRun
from testbed.paths import REPOSITORY
from testbed.servers.gridftp import GridFtp
from testbed.servers.nginx import Nginx
from testbed.servers.xrootd import Xrootd

HERE = os.path.join(REPOSITORY, "bench", "tune")
MIB = 1 << 20
KIB = 1 << 10
TEXT_BYTES = 4 * MIB
# Where every plan's server listens.
PORT = 2811


@dataclass(frozen=True)
class Path:
    """`default` is the program's own setting, a point of the grid; the rest is its world: the link, the server's disk, what lies on the server."""

    name: str
    title: str
    program: str
    default: dict
    bits_per_s: float = None
    round_trip_ms: float = 0.0
    # What the relay's `--loss` takes.
    loss: str = None
    disk_bytes_per_s: int = None
    disk_latency_ns: int = 0
    source_bytes: int = 64 * MIB
    # How many files lie in the served `many`, and their size.
    many: tuple = ()
    # Kernel settings of both hosts.
    sysctls: dict = field(default_factory=dict)
    packages: dict = field(default_factory=dict)
    # One of the testbed's servers; the plan starts it with `${serve}`.
    server: type = None
    # A program of ours in C, compiled by MPICH's compiler.
    source: str = None
    has_quota: bool = False

    @property
    def plan(self):
        """The plan's file."""
        return os.path.join(HERE, "plans", f"{self.name}.toml")

    @property
    def surface(self):
        """The file with what was measured."""
        return os.path.join(HERE, "surfaces", f"{self.name}.json")


RCLONE = {"rclone": "rclone"}
MPICH = {"mpich": "mpiexec.mpich", "libmpich-dev": "mpicc.mpich"}
FIXED_WINDOW = {"net.ipv4.tcp_rmem": "4096 65536 65536", "net.ipv4.tcp_wmem": "4096 65536 65536"}
# A lost end of a file waits for 20 ms and not for 200: else the few runs that lose one are noise.
SOON_AGAIN = {"net.ipv4.tcp_rto_min_us": "20000"}
ONE_BY_ONE = {"requests": "1", "streams": "1"}

PATHS = [
    Path("wan", "Rate and delay: files of 512 KiB over 400 Mbit/s, 10 ms", "globus-url-copy", {**ONE_BY_ONE, "block": "1Mi"}, 4e8, 10.0, many=(16, 512 * KIB)),
    Path("window", "A cap on each stream: a TCP window of 64 KiB over 20 ms", "globus-url-copy", {"streams": "1", "window": "64Ki"}, 4e8, 20.0, sysctls=FIXED_WINDOW),
    Path("delay", "Delay: one file over 20 ms", "xrdcp", {"block": "8Mi", "depth": "4", "streams": "1"}, 8e8, 20.0, source_bytes=32 * MIB, packages=Xrootd.packages, server=Xrootd),
    Path("loss", "Loss: 0.2 % of the segments, 10 ms", "globus-url-copy", ONE_BY_ONE, 8e8, 10.0, loss="0%,0.2%", many=(32, MIB), sysctls=SOON_AGAIN),
    Path("small-files", "Many small files: 200 of 16 KiB over 10 ms", "rclone", {"requests": "4", "checkers": "8"}, 4e8, 10.0, many=(200, 16 * KIB), packages=RCLONE),
    Path("disk", "A disk of 200 MiB/s, 0.2 ms for each request", "fio", {"block": "4Ki", "depth": "1", "threads": "1"}, disk_bytes_per_s=200 * MIB, disk_latency_ns=200_000, packages={"fio": "fio"}),
    Path("quota", "A part of a processor: 50 %, to compress with", "pigz", {"level": "6", "threads": "2", "block": "128Ki"}, 1e8, packages={"pigz": "pigz"}, server=Nginx, has_quota=True),
    Path("rate", "A link's rate: 40 Mbit/s, compressed before it", "xz", {"level": "6", "threads": "1", "block": "4Mi"}, 4e7, packages={"xz-utils": "xz"}, server=Nginx),
    Path("thrash", "Thrash: a server that is slower above 8 connections", "rclone", {"requests": "4", "streams": "4"}, many=(32, MIB), packages=RCLONE),
    Path("mpi", "An MPI program's hint: pieces on a disk that needs 1 ms for each request", "MPICH", {"block": "512Ki", "ranks": "2"}, disk_bytes_per_s=100 * MIB, disk_latency_ns=1_000_000, packages=MPICH, source="interleaved"),
    Path("cp", "Our own cp: 400 Mbit/s, 10 ms", "thalweg cp", {"streams": "2", "block": "1Mi", "depth": "8"}, 4e8, 10.0, source_bytes=16 * MIB),
]


class PathWorld(World):
    """The world of a path: besides a study's, loss, kernel settings and a folder of many files."""

    def __init__(self, path, program, relay):
        super().__init__(path, program, relay)
        self.packages = {**GridFtp.packages, **path.packages}

    def _relay_options(self):
        return {**super()._relay_options(), **({"loss": self.wanted.loss} if self.wanted.loss else {})}

    def _link(self):
        super()._link()
        for host in (self.client, self.server):
            for name, value in self.wanted.sysctls.items():
                host.sysctl(name, value)

    def _files(self):
        super()._files()
        count, size = self.wanted.many or (0, 0)
        many = os.path.join(self.inside("served"), "many")
        os.makedirs(many)
        for number in range(count):
            files.make_source(os.path.join(many, f"file-{number:04}"), size)
        make_text(os.path.join(self.inside("near"), "text"), TEXT_BYTES)
        if self.disk:
            self.disk.slow(latency=self.wanted.disk_latency_ns)
        if self.wanted.source:
            program = os.path.join(self.inside("near"), self.wanted.source)
            shell.run("mpicc.mpich", "-O2", "-o", program, os.path.join(HERE, f"{self.wanted.source}.c"))
        self.words |= {"many_bytes": str(count * size), "tune": HERE}
        if self.wanted.server:
            server = self.wanted.server(self.inside("server"), host=self.server, root=self.inside("served"))
            os.makedirs(server.directory)
            server.port = PORT
            self.words["serve"] = shlex.join(self.server.raw(server.argv()))


def make_text(path, size):
    """A file that compresses as text does: the sources of Python's library, in the order of their names."""
    with open(path, "wb") as out:
        for source in sorted(glob.glob(os.path.join(os.path.dirname(os.__file__), "*.py"))):
            with open(source, "rb") as text:
                out.write(text.read(size - out.tell()))
            if out.tell() == size:
                return
    raise NotRun(f"Python's library has no {size} bytes of source here")
