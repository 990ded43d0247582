"""The stage of the layout study: nodes with a disk and a link of known rates each, MPI jobs over them, and NFS beside."""

import os
import shutil
from contextlib import ExitStack, contextmanager

from bench.harness import layout_page, ranks
from bench.harness.cluster import Cluster
from bench.harness.studies import NFS_CLIENT, StudyCampaign, nfs
from testbed.campaign import Item, say

MEBIBYTE = 1 << 20
# Room for one file of every node on each disk, and for the NFS server's, which holds all of them.
IMAGE_BYTES = 768 * MEBIBYTE
SERIES = [
    Item("local", "The file system of the node's own disk"),
    Item("local-cached", "That file system, without waiting for the disk"),
    Item("basic", "Everything on one server"),
    Item("stripe-64k", "Strips of 64 KiB over all nodes"),
    Item("stripe-8m", "Strips of 8 MiB"),
    Item("stripe-16m", "Strips of 16 MiB"),
    Item("stripe-fitted", "Strips as long as a node's part"),
    Item("varstrip-local", "Each part on its writer's own disk"),
    Item("twod", "In two groups"),
]
PEER = """[[peers]]
name = "NFS: one server"
node = "{node}"
path = "{export}/{{file}}"
write = "{client} write {url} --size {{bytes}} --block 1Mi --depth 8 --sample 0"
read = "{client} read {url} --block 1Mi --depth 8 --sample 0"
"""


class Layouts(StudyCampaign):
    """`thalweg bench layout` on a cluster of network namespaces."""

    name = "layout"
    noun = "series"
    parts = SERIES
    flags = ("program", "nice")
    quick = "two sizes, two repetitions, no patterns, no peers; results go to target/NAME-quick"
    root = "only root may make network namespaces and disks"
    page = layout_page
    parts_flag = "--series"

    def add_flags(self, parser):
        super().add_flags(parser)
        parser.add_argument("--nodes", type=int, default=4, help="nodes (2 to 8)")
        parser.add_argument("--disk", type=float, default=40, metavar="MIB", help="what a disk gives, MiB per second")
        parser.add_argument("--link", type=float, metavar="MIB", help="what a link carries (default: half of what a disk gives)")
        parser.add_argument("--sizes", default="4Mi,16Mi,64Mi", help="sizes of a node's part")
        parser.add_argument("--repeat", type=int, default=5, help="repetitions (default: 5)")
        parser.add_argument("--via", default="library,mount,mpich,openmpi", help="library, mount, mpich, openmpi; several with commas")
        parser.add_argument("--patterns", default="all", help="further patterns of access")

    def check(self):
        options = self.options
        if not 2 <= options.nodes <= 8:
            raise ValueError("--nodes: 2 to 8")
        self.link = options.link or options.disk / 2
        if options.quick:
            options.sizes, options.repeat, options.patterns, options.via, options.no_nfs = "4Mi,32Mi", 2, "", "library", True

    def figures(self):
        nodes, disk = self.options.nodes, self.options.disk
        crossing = (nodes - 1) / nodes
        allowed = min(disk, self.link / crossing)
        words = f"here {crossing:.0%} over {self.link:g} MiB/s, so at most {allowed:.1f} MiB/s of a node, where its disk gives {disk:g}"
        return {"prediction": words}

    @contextmanager
    def stage(self, out):
        options = self.options
        rates = (options.disk * MEBIBYTE, self.link * MEBIBYTE, IMAGE_BYTES)
        with Cluster(self.program, options.nodes, *rates) as cluster, ExitStack() as serving:
            vias, mpi = with_mpi(cluster, out, options.via.split(","))
            label = (
                f"{options.nodes} network namespaces on one machine, each with an ext4 on a disk of {options.disk:g} MiB/s, "
                f"one I/O server, and a link of {self.link:g} MiB/s both ways"
            )
            words = ["--store", cluster.store, "--run-on", cluster.run_on, "--label", label, "--disk-rate", str(int(options.disk * MEBIBYTE))]
            words += ["--sizes", options.sizes, "--repeat", str(options.repeat), "--via", ",".join(vias), *mpi]
            words += ["--patterns", options.patterns] if options.patterns else []
            words += ["--bonnie"] if shutil.which("bonnie++") and not options.quick else []
            if not options.no_nfs:
                export = os.path.join(cluster.disks[0].path, "export")
                words += peers(cluster, serving.enter_context(nfs(cluster.hosts[0], os.path.join(cluster.directory, "nfs"), export)))
            yield words, cluster.directory


def with_mpi(cluster, out, vias):
    """Through what can be measured here, and the words that say how MPI jobs are run."""
    wanted = [via for via in vias if via in ("mpich", "openmpi")]
    for mpi in wanted:
        if not ranks.compiled(mpi, cluster.directory):
            say(f"without {mpi}: there is no mpicc.{mpi} that works")
            vias = [via for via in vias if via != mpi]
    if not any(via in wanted for via in vias):
        return vias, []
    as_rank, here = ranks.as_rank(cluster.directory, os.path.join(os.path.abspath(out), "mounts"))
    os.environ.update(ranks.ENVIRONMENT)
    run = f"mpiexec.{{mpi}} -n {{ranks}} {as_rank} {cluster.directory}/patterns-{{mpi}}"
    return vias, ["--mpi-run", run, "--mpi-directory", here]


def peers(cluster, server):
    """The words that make an NFS server over the first node's disk a peer; none where there is no server."""
    if server is None:
        return []
    path = os.path.join(cluster.directory, "peers.toml")
    with open(path, "w") as text:
        text.write(PEER.format(node=cluster.hosts[0].name, export=server.root, client=NFS_CLIENT, url=server.address("{file}")))
    return ["--peers", path]
