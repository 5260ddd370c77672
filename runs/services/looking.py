"""What lies in a run's folder for a phase, seen with the run's values and tilt series. Reads only."""

from dataclasses import dataclass, field, replace

from jobs.shells import shell_for
from runs.models import Phase
from runs.pipeline.outputs import below
from runs.pipeline.spec import PhaseSpec, PipelineSpec
from runs.services.board import series_names
from runs.services.exports import values_for
from runs.services.verify import Finding, Look, find_series, verify_outputs
from runs.states import Completion


@dataclass
class Gathered:
    """What lay in the run's folder when a step had ended. `error`: it could not be looked at, in words."""

    names: list[str] = field(default_factory=list)
    finding: Finding | None = None
    error: str = ""


def look_at(phase: Phase, spec: PipelineSpec) -> Gathered:
    """What lies in the run's folder for this phase."""
    run = phase.run
    shell = shell_for(run.target)
    found = [] if phase.species_id else find_series(shell, run.work_dir, spec.tilt_series)
    known = series_names(run, phase.species)
    active = sorted({*known.active, *found} - {*known.excluded})
    look = replace(look_for(phase, spec, active), excluded=known.excluded)
    return Gathered(names=found, finding=verify_outputs(shell, look))


def is_proof(spec: PhaseSpec, finding: Finding | None) -> bool:
    """Whether outputs alone say that a phase is done: all there and whole, and nothing that could not be looked for."""
    whole = finding is not None and finding.total > 0 and not finding.problems and not finding.unchecked
    return whole and not spec.in_place


def look_for(phase: Phase, spec: PipelineSpec, series: list[str]) -> Look:
    """What to look for in the run's folder for this phase, with these tilt series."""
    return Look(
        work_dir=phase.run.work_dir,
        phase=spec.by_key[phase.key],
        values=below(phase.run.work_dir, values_for(phase, spec)),
        series=series,
        gates=spec.gates_at(phase.key, "after"),
    )


def completion(done: int, total: int) -> str:
    """How much of a phase's outputs are there; nothing, as long as it isn't known how many there are to be."""
    if done == 0:
        return Completion.PENDING
    return Completion.DONE if done >= total else Completion.PARTIAL
