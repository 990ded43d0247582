"""The five classic studies, made again: shards that measure, results in git, and docs/STUDIES.md made of them.

A study is a package: `world.py` has what it runs on and its shards, `section.py` its part of the page, from its results alone.
"""

from bench.harness.classics.study import Study
from bench.harness.classics.pvfs_cp import section as pvfs_cp
from bench.harness.classics.pvfs_cp.world import SHARDS as PVFS_CP

STUDIES = [
    Study("pvfs-cp", "The profile of pvfs2-cp, 2007", PVFS_CP, pvfs_cp),
]
