"""What a person needs to see first: what waits for them, what runs, what went wrong."""

from typing import Any

from gates.inbox import waiting_for, what_waits
from gates.models import Evidence, EvidenceKind, Gate
from gates.showing import summary
from gates.states import GateState
from jobs.drain import draining
from jobs.models import Job
from jobs.states import JobState
from record.access import Actor, lab_ids, visible
from runs.models import Phase
from runs.states import PhaseState, RunState

SHOWN = 20
_PICTURES = [EvidenceKind.IMAGE, EvidenceKind.CURVE]


def look_around(user: Actor) -> dict[str, Any]:
    """Everything the home page shows, in a constant number of queries."""
    mine = waiting_for(user)
    others = what_waits(lab_ids(user)).exclude(pk__in=[gate.pk for gate in mine])
    phases = visible(Phase.objects.select_related("run", "species").filter(run__archived_at=None), user, lab="run__lab")
    return {
        "drain": draining(),
        "waiting_count": len(mine),
        "mine": with_pictures(mine[:SHOWN]),
        "others": with_pictures(list(others[:SHOWN])),
        "running": list(
            phases.filter(state__in=[PhaseState.RUNNING, PhaseState.VERIFYING]).order_by("started_at", "id")[:SHOWN]
        ),
        "failed": list(
            phases.filter(state=PhaseState.FAILED, run__state__in=[RunState.RUNNING, RunState.PAUSED]).order_by(
                "-ended_at", "-id"
            )[:SHOWN]
        ),
        "stuck_gates": list(
            visible(Gate.objects.filter(state__in=[GateState.PREPARE_FAILED, GateState.APPLY_FAILED]), user)[:SHOWN]
        ),
        "lost_jobs": list(visible(Job.objects.filter(state=JobState.LOST), user)[:SHOWN]),
    }


def with_pictures(gates: list[Gate]) -> list[Gate]:
    """The gates, each with `picture` (UUID of the first one among its evidence, or None) and `advice`. One query."""
    names = Evidence.objects.filter(gate__in=gates, kind__in=_PICTURES).order_by("gate_id", "-name")
    first = dict(names.values_list("gate_id", "uuid"))
    for gate in gates:
        gate.picture = first.get(gate.pk)  # type: ignore[attr-defined]
        gate.advice = summary(gate.suggestion)  # type: ignore[attr-defined]
    return gates
