"""MPI jobs whose ranks see the mounts of their nodes: what they read and write goes over the nodes' links, what they send each other does not."""

import os
import shutil
import subprocess

from testbed.paths import REPOSITORY

SOURCE = os.path.join(REPOSITORY, "mpi", "patterns", "patterns.c")
# What Open MPI wants to run as root, with more ranks than processors.
ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1"}
AS_RANK = """#!/bin/sh
# Runs a program as a rank sees it on its node: the node's mount is where all ranks look for it.
rank=${{PMI_RANK:-${{OMPI_COMM_WORLD_RANK:-0}}}}
exec unshare --mount --propagation private sh -c 'mount --bind "$1" "$2"; shift 2; exec "$@"' as_rank {mounts}/n$rank {here} "$@"
"""


def compiled(mpi, directory):
    """The program of the patterns, compiled by `mpich` or `openmpi` in `directory`; None where there is no compiler that works."""
    compiler = shutil.which(f"mpicc.{mpi}")
    program = os.path.join(directory, f"patterns-{mpi}")
    if not compiler or subprocess.run([compiler, "-O2", "-o", program, SOURCE], check=False).returncode != 0:
        return None
    return program


def as_rank(directory, mounts):
    """What stands before a rank's program, made in `directory`, and where it sees its node's mount; `mounts` has a mount for each node."""
    here, script = os.path.join(directory, "here"), os.path.join(directory, "as_rank")
    os.makedirs(here, exist_ok=True)
    with open(script, "w", encoding="utf-8") as text:
        text.write(AS_RANK.format(mounts=mounts, here=here))
    os.chmod(script, 0o755)
    return script, here
