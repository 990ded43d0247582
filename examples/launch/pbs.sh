#!/bin/sh
# A store over the nodes of the job: hosts come from PBS_NODEFILE, servers are started by ssh.
#
#   qsub examples/launch/pbs.sh
#
#PBS -N thalweg
#PBS -l select=4:ncpus=8
#PBS -l walltime=00:10:00
cd "$PBS_O_WORKDIR" || exit 1
exec thalweg launch --targets "${TMPDIR:-/tmp}" --stage-in input:/input --stage-out /results:results -- ./program
