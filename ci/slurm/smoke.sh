#!/usr/bin/env bash
# Proves an image on one GPU node: sbatch --export=ALL,IMAGE=reg/sglang:TAG,MODEL=/models/GLM ci/slurm/smoke.sh
# The node needs Docker and rocmfix. `rocmfix smoke ... --runtime slurm` writes such a script for any other choice.
#SBATCH --job-name=rocmfix-smoke
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --exclusive
#SBATCH --time=04:00:00
#SBATCH --output=rocmfix-smoke-%j.log
set -euo pipefail
: "${IMAGE:?the image to prove}" "${MODEL:?the folder of its checkpoint}"
rocmfix smoke "$IMAGE" --model "$MODEL" --tp "${TP:-8}" --depth "${DEPTH:-3,4,5}" --out "smoke-${SLURM_JOB_ID:-0}"
