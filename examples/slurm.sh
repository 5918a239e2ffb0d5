#!/bin/bash
# Convert a bucket of drives on 8 nodes, as one Dask cluster:
#   sbatch examples/slurm.sh
# A job that is sent again does what is missing; the exit code is 1 if any drive failed.
#SBATCH --job-name=edgefirst-convert
#SBATCH --nodes=8
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --mem=12G
#SBATCH --time=12:00:00
#SBATCH --requeue
set -u

# Let the workers make datasets below the node's own disk.
export TMPDIR="${SLURM_TMPDIR:-/tmp}"

dask scheduler --port 8786 &
srun dask worker "tcp://$(hostname):8786" --nworkers 4 --nthreads 1 --death-timeout 60 &
sleep 30

exec edgefirst-ros convert s3://bucket/drives/ -o s3://bucket/sets/ --workers 2 \
  --engine dask --address "tcp://$(hostname):8786"
