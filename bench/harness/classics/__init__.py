"""The five classic studies, made again: shards that measure, results in git, and docs/results/STUDIES.md made of them.

A study is a package: `world.py` has what it runs on and its shards, `section.py` its part of the page, from its results alone.
"""

from bench.harness.classics.distributions import section as distributions
from bench.harness.classics.distributions.world import SHARDS as DISTRIBUTIONS
from bench.harness.classics.gridftp import section as gridftp
from bench.harness.classics.gridftp.world import SHARDS as GRIDFTP
from bench.harness.classics.listing import section as listing
from bench.harness.classics.listing.world import SHARDS as LISTING
from bench.harness.classics.pvfs_cp import section as pvfs_cp
from bench.harness.classics.pvfs_cp.world import SHARDS as PVFS_CP
from bench.harness.classics.rpcstat import section as rpcstat
from bench.harness.classics.rpcstat.world import SHARDS as RPCSTAT
from bench.harness.classics.study import Study

STUDIES = [
    Study("pvfs-cp", "The profile of pvfs2-cp, 2007", PVFS_CP, pvfs_cp),
    Study("gridftp", "GridFTP and NeST, 2004", GRIDFTP, gridftp),
    Study("rpcstat", "NFS clients under rpcstat, 2001", RPCSTAT, rpcstat),
    Study("distributions", "Distributions, hints and their measurement, 2005", DISTRIBUTIONS, distributions),
    Study("listing", "ls -Ul, 2011", LISTING, listing),
]
