"""Splits a list of particles into random halves, as a job of ours between the lab's own."""

import hashlib

from record.errors import BadInput
from runs.models import Phase
from runs.pipeline.outputs import below, expand
from runs.pipeline.spec import PhaseSpec, spec_of
from runs.services.exports import values_for
from runs.services.tools import tools_path

HALVES_TEXT = """\
#!/bin/bash
#SBATCH --job-name=split_halves
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=1
#SBATCH --mem=2G
#SBATCH --time=00:30:00
#SBATCH --output=logs/split_halves_%j.out
#SBATCH --error=logs/split_halves_%j.err
# Splits a list of particles into two random halves; the seed is that of the environment, and kept with the result.
set -euo pipefail
cd "$WORK_DIR"
export PYTHONPATH="$TOOLS_FOLDER"
exec "$PYTHON" -m runs.qc.halves --of "$HALVES_OF" --first "$HALVES_FIRST" --second "$HALVES_SECOND" \\
  --seed "$HALVES_SEED"
"""


def halves_environment(phase: Phase, spec: PhaseSpec) -> dict[str, str]:
    """What the job is told: which list, what the halves are called, and the seed. BadInput where a value lacks."""
    if spec.halves is None:
        raise RuntimeError(f"{phase} splits no list")
    values = below(phase.run.work_dir, values_for(phase, spec_of(phase.run.snapshot)))
    environment = {"TOOLS_FOLDER": tools_path(phase.run, phase.run.target), "HALVES_SEED": str(seed_of(phase))}
    for name in ("of", "first", "second"):
        pattern = getattr(spec.halves, name)
        path = expand(pattern, values)
        if path is None:
            raise BadInput(f"{pattern} can't be filled in: a value is not set, or can't name a file.")
        environment[f"HALVES_{name.upper()}"] = path
    return environment


def seed_of(phase: Phase) -> int:
    """The seed of this attempt, 31 bits: another for each attempt, and the same when a crash plans the job anew."""
    digest = hashlib.sha256(f"{phase.uuid} {phase.attempt}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1
