#!/bin/bash
# Convert a bucket of drives by an array of 20 jobs, each of which does a part of them:
#   sbatch examples/slurm.sh
# A job that is sent again, or a second array, does what is missing. Then a run without --shard makes what is left, and
# the exit code is 1 if any drive failed.
#SBATCH --job-name=edgefirst-convert
#SBATCH --array=0-19
#SBATCH --cpus-per-task=8
#SBATCH --mem=12G
#SBATCH --time=12:00:00
#SBATCH --requeue
#SBATCH --signal=B:TERM@60
set -u

# Jobs of one array begin at once: let the workers write below the node's own disk.
export TMPDIR="${SLURM_TMPDIR:-/tmp}"

exec edgefirst-ros convert s3://bucket/drives/ -o s3://bucket/sets/ --jobs 4 \
  --shard "${SLURM_ARRAY_TASK_ID}/${SLURM_ARRAY_TASK_COUNT}" --log "convert-${SLURM_ARRAY_TASK_ID}.jsonl"
