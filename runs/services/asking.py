"""A phase's gates: asked in the order in which the overlay names them, before its work and after it."""

from typing import Any

from django.utils import timezone

from gates.models import Gate
from gates.services import reopen_gate, request_gate, withdraw_gate
from gates.states import UNDECIDED, GateState
from record.errors import StaleState
from record.models import Decision
from record.services import Author, record_event
from runs.models import Phase
from runs.pipeline.spec import GateSpec, PipelineSpec
from runs.services.moves import move
from runs.states import PhaseState

PIPELINE = "pipeline"  # the name under which the engine itself asks
_IN_APPLICATION = (GateState.DECIDED, GateState.APPLYING)


def next_gate(spec: PipelineSpec, phase: Phase, where: str) -> GateSpec | None:
    """The first gate on that side of the phase which has not been passed."""
    return next((gate for gate in spec.gates_at(phase.key, where) if gate.key not in phase.gates_passed), None)


def ask_gate(phase: Phase, gate: GateSpec) -> None:
    """Have the phase wait at `gate`, and put the question; where it was asked before, as a new iteration."""
    event = "ask_next" if phase.state == PhaseState.CHECKPOINT else "reach_checkpoint"
    move(phase, event, gate_asked=gate.key, reason="")
    last = Gate.objects.filter(subject_uuid=phase.uuid, key=gate.key).order_by("-iteration").first()
    if last is None:
        request_gate(
            lab_id=phase.run.lab_id,
            subject=phase.subject(),
            key=gate.key,
            requested_by=phase.run.created_by,
            **describe_gate(phase, gate),
        )
    elif last.state not in _IN_APPLICATION:
        _ask_again(last, f"{phase.named} has come to this gate again (attempt {phase.attempt}).")


def _ask_again(last: Gate, reason: str) -> None:
    """A new iteration with evidence of what there is now; one that is still open (somebody reopened it) ends first."""
    author = Author.policy(PIPELINE)
    if last.state in UNDECIDED:
        withdraw_gate(gate_id=last.pk, author=author, reason=reason)
    reopen_gate(gate_id=last.pk, author=author, reason=reason)


def describe_gate(phase: Phase, gate: GateSpec) -> dict[str, Any]:
    """What a gate of this phase is made of today."""
    return {
        "protocol": gate.protocol,
        "title": gate.title,
        "context": f"{phase.run.name}, {phase.named}",
        "options": gate.options,
        "policy": gate.policy,
    }


def refuse_while_applied(phases: list[Phase]) -> None:
    """StaleState where a decision about one of these phases is being written back at this moment."""
    uuids = [phase.uuid for phase in phases]
    gate = Gate.objects.filter(subject_uuid__in=uuids, state__in=_IN_APPLICATION).first()
    if gate is not None:
        raise StaleState(
            f"The decision at the gate {gate.title} ({gate.context}) is just being applied; try again then."
        )


def withdraw_gates(phases: list[Phase], author: Author, reason: str, decision: Decision | None) -> None:
    """Take back every question about these phases that nobody has answered yet."""
    uuids = [phase.uuid for phase in phases]
    for gate in Gate.objects.filter(subject_uuid__in=uuids, state__in=UNDECIDED).order_by("id"):
        withdraw_gate(gate_id=gate.pk, author=author, reason=reason, decision=decision)


def pass_gate(phase: Phase, key: str, decision: Decision) -> None:
    """Note that the gate has been passed; the engine then goes on from there."""
    passed = [*phase.gates_passed, key]
    Phase.objects.filter(pk=phase.pk).update(gates_passed=passed, gate_asked="", reason="")
    phase.gates_passed, phase.gate_asked, phase.reason = passed, "", ""


def mark_stale(phases: list[Phase], decision: Decision, message: str) -> None:
    """Mark what these phases have done as out of date; those that are marked already keep their first mark."""
    for phase in phases:
        if phase.stale_since is not None:
            continue
        phase.stale_since, phase.stale_by = timezone.now(), decision
        Phase.objects.filter(pk=phase.pk).update(stale_since=phase.stale_since, stale_by=decision)
        record_event(
            lab_id=phase.run.lab_id,
            kind="phase.mark_stale",
            subject=phase.subject(),
            message=f"{phase.named}: {message}",
            decision=decision,
        )
