"""What a phase's scripts are told beside the conf files: values of the overlay's, and answers that gates were given."""

from typing import Any

from gates.models import Gate
from gates.states import GateState
from record.errors import BadInput
from runs.models import Phase, Species
from runs.pipeline.spec import PhaseSpec, PipelineSpec, spec_of
from runs.services.values import resolved_values
from runs.states import PhaseState


def species_for(phase: Phase, spec: PhaseSpec) -> Species | None:
    """The species whose conf the phase's scripts read.

    A phase that joins the lanes is run once, and its scripts source one species' conf all the same: that of the first
    lane that has come as far as this.
    """
    if phase.species is not None or not spec.joins:
        return phase.species
    lanes = Species.objects.filter(run=phase.run_id).taking_part()
    arrived = lanes.filter(phases__needed_by=phase, phases__state=PhaseState.DONE)
    return arrived.first() or lanes.first()


def values_for(phase: Phase, spec: PipelineSpec) -> dict[str, str]:
    """Name -> value as the phase's scripts see it: conf files, and over them what only its environment has."""
    phase_spec = spec.by_key[phase.key]
    return resolved_values(spec, phase.run, species_for(phase, phase_spec)) | phase_spec.exports


def exported_values(phase: Phase, spec: PhaseSpec) -> dict[str, str]:
    """Name -> value of what the overlay exports to this phase alone; BadInput where a gate gave no such answer."""
    return spec.exports | {name: _answer(phase, name, given) for name, given in spec.answers.items()}


def _answer(phase: Phase, name: str, given: dict[str, str]) -> str:
    """What was answered at the gate of the same lane, or the shared one: lists with spaces between."""
    at = spec_of(phase.run.snapshot).gate(given["gate"])
    lanes = Phase.objects.filter(run=phase.run_id, key=at.phase, species__in=[phase.species_id])
    shared = Phase.objects.filter(run=phase.run_id, key=at.phase, species=None)
    subjects = (lanes | shared).values("uuid")
    gates = Gate.objects.filter(subject_uuid__in=subjects, key=at.key, state=GateState.APPLIED)
    gate = gates.select_related("decision__statement").order_by("-iteration").first()
    answers: dict[str, Any] = gate.decision.statement.answers if gate and gate.decision else {}
    value = answers.get(given["answer"])
    if value in (None, "", []):
        raise BadInput(f"{name} is answered at the gate {at.title} ({given['answer']}), and nothing was answered there")
    return " ".join(str(each) for each in value) if isinstance(value, list) else str(value)
