"""Four nodes, each with a disk and a link of known rates, that write and read their parts of one file with each layout.

Most of it is `bench/layout`: the client library, mounts, links of half a disk's rate as in docs/results/LAYOUT-BENCH.md, and links that are no limit. The
typed hints are MPI jobs of both implementations: rank r sees the mount of node r.
"""

import json
import os
import subprocess
from contextlib import ExitStack
from functools import partial

from bench.harness import ranks
from bench.harness.classics.made_elsewhere import MadeElsewhere
from bench.harness.classics.shard import Shard
from bench.harness.cluster import Cluster
from testbed import files
from testbed.errors import Broken, NotRun
from testbed.paths import REPOSITORY
from testbed.store import Mount

MIB = 1 << 20
PART = 32 * MIB
NODES = 4
DISK_MIB = 40
LINK_MIB = 20
WORDS = ["--no-nfs", "--patterns", "", "--sizes", "32Mi"]
SERIES = "local,local-cached,basic,stripe-64k,stripe-8m,stripe-16m,stripe-fitted,varstrip-local"
SETTINGS = {
    "library": [*WORDS, "--via", "library", "--repeat", "5", "--", "--series", SERIES],
    "no-link": [*WORDS, "--via", "library", "--repeat", "3", "--link", "2000", "--", "--series", "local,basic,stripe-64k,stripe-fitted,varstrip-local"],
    "mount": [*WORDS, "--via", "mount", "--repeat", "3", "--", "--series", "local,basic,stripe-64k,stripe-fitted,varstrip-local"],
}
FIT = ";".join(f"{node}:{PART}" for node in range(NODES))
HINTS = {
    "stripe-64k": ["distribution_name=simple_stripe", "simple_stripe:int64:strip_size=65536"],
    # Begun at the second: a layout that does not know who writes.
    "stripe-fitted": ["distribution_name=simple_stripe", f"simple_stripe:int64:strip_size={PART}", "thalweg_placement=round-robin:1"],
    "varstrip": ["distribution_name=varstrip_dist", f"varstrip_dist:string:strips={FIT}", "thalweg_placement=targets:0,1,2,3"],
}
TYPED = {f"{mpi}-{hints}": (mpi, HINTS[hints]) for mpi in ("mpich", "openmpi") for hints in HINTS}
# As `mpi-io-test` does by default: each rank writes one block, and reads it; here the block is the rank's part.
PATTERN = ["independent", "shared", "ascending", str(PART), str(MIB), "1"]


def of_document(document):
    """What a line has: the points without their nodes."""
    points = [{key: value for key, value in point.items() if key != "nodes"} for point in document["points"]]
    return {"points": points, "link_bytes_per_s": document["link_bytes_per_s"], "disk_bytes_per_s": document["disk_bytes_per_s"], "bonnie": document.get("bonnie")}


class Typed:
    """A store on the four nodes, mounted on each; jobs of both MPIs pass the layout as hints."""

    def __init__(self, context):
        if os.geteuid() != 0:
            raise NotRun("only root may make network namespaces and disks")
        self.program = context.program
        self.undo = ExitStack()
        self.cluster = Cluster(self.program, NODES, DISK_MIB * MIB, LINK_MIB * MIB, 512 * MIB)
        self.directory = self.cluster.directory
        self.jobs = 0

    def __enter__(self):
        with ExitStack() as undo:
            undo.enter_context(self.cluster)
            for host in self.cluster.hosts:
                path = os.path.join(self.directory, "mounts", host.name)
                log = os.path.join(self.directory, f"mount-{host.name}.log")
                flags = ["--store", self.cluster.store, "--node", host.name]
                undo.enter_context(Mount(self.program, "thal:/", path, log, flags, host))
            self.programs = {mpi: self._compiled(mpi) for mpi in ("mpich", "openmpi")}
            self.as_rank, self.here = ranks.as_rank(self.directory, os.path.join(self.directory, "mounts"))
            self.undo = undo.pop_all()
        return self

    def __exit__(self, *_):
        self.undo.close()

    def _compiled(self, mpi):
        program = ranks.compiled(mpi, self.directory)
        if not program:
            raise NotRun(f"there is no mpicc.{mpi} that works")
        return program

    def run(self, setting, _number):
        """Write and read, caches emptied between; each rank's rates, and where the bytes are."""
        mpi, hints = TYPED[setting]
        self.jobs += 1
        name = f"{setting}-{self.jobs}"
        try:
            written = self._job(mpi, name, "write", hints)
            self._empty_caches()
            read = self._job(mpi, name, "read", [])
            shown = self._thalweg("layout", "show", "--json", f"thal:/{name}")
            return {"hints": hints, "write": written, "read": read, "layout": json.loads(shown)}
        finally:
            self._thalweg("rm", f"thal:/{name}")

    def _thalweg(self, verb, *words):
        host = self.cluster.hosts[0]
        place = [verb, words[0], "--store", self.cluster.store, *words[1:]] if verb == "layout" else [verb, "--store", self.cluster.store, *words]
        done = subprocess.run(host.argv([self.program, *place]), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Broken(f"thalweg {verb}: {done.stderr.strip()[-300:]}")
        return done.stdout

    def _job(self, mpi, name, way, hints):
        library = os.path.join(REPOSITORY, "mpi", "build", f"libthalweg-{mpi}.so")
        if not os.path.exists(library):
            raise NotRun(f"{library} is not built: make mpi")
        program = ["env", f"LD_PRELOAD={library}", self.programs[mpi], os.path.join(self.here, name), way, *PATTERN, *hints]
        argv = [f"mpiexec.{mpi}", "-n", str(NODES), self.as_rank, *program]
        done = subprocess.run(argv, capture_output=True, text=True, env={**os.environ, **ranks.ENVIRONMENT}, check=False)
        if done.returncode != 0:
            raise Broken(f"{' '.join(argv[:1])} {name} {way}: {(done.stderr or done.stdout).strip()[-300:]}")
        said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        return [rank["bytes"] / (rank["transfer_s"] + rank["sync_s"]) for rank in said]

    def _empty_caches(self):
        """Of the servers' datafiles; the mounts' own are given back when a file is opened again that another node wrote, which is not enough
        for a node's own part: so the whole machine's are dropped."""
        for disk in self.cluster.disks:
            for path in files.files_under(disk.path, at_least_bytes=MIB):
                files.make_cold(path)
        with open("/proc/sys/vm/drop_caches", "w", encoding="utf-8") as drop:
            drop.write("1")


SHARDS = [
    *(
        Shard("distributions", name, title, (name,), partial(MadeElsewhere, script="layout", settings=SETTINGS, of_document=of_document))
        for name, title in (
            ("library", "Every layout, through the client library"),
            ("no-link", "The same where links are no limit"),
            ("mount", "The same through mounts"),
        )
    ),
    Shard("distributions", "typed-hints", "Typed hints, with MPICH and Open MPI", tuple(TYPED), Typed, repeat=3),
]
