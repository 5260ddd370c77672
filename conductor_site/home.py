"""What a person needs to see first: what waits for them, what runs, what went wrong."""

from typing import Any

from django.db.models import OuterRef, Subquery

from gates.models import Evidence, EvidenceKind, Gate
from gates.states import GateState
from jobs.models import Job
from jobs.states import JobState
from record.access import Ability, Actor, lab_ids, visible
from runs.models import Phase
from runs.states import PhaseState, RunState

SHOWN = 20
_PICTURES = [EvidenceKind.IMAGE, EvidenceKind.CURVE]


def look_around(user: Actor) -> dict[str, Any]:
    """Everything the home page shows, in a constant number of queries."""
    waiting = _with_picture(visible(Gate.objects.waiting().select_related("lab", "delegated_to"), user))
    mine = waiting.filter(lab__in=lab_ids(user, Ability.DECIDE))
    others = waiting.exclude(lab__in=lab_ids(user, Ability.DECIDE))
    phases = visible(Phase.objects.select_related("run", "species").filter(run__archived_at=None), user, lab="run__lab")
    return {
        "mine": list(mine[:SHOWN]),
        "others": list(others[:SHOWN]),
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


def _with_picture(gates: Any) -> Any:
    """Each gate with `picture`, the UUID of the first picture among its evidence (None without one)."""
    first = Evidence.objects.filter(gate=OuterRef("pk"), kind__in=_PICTURES).order_by("name").values("uuid")[:1]
    return gates.annotate(picture=Subquery(first))
