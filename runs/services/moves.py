"""Moves of runs and phases by their tables."""

from typing import Any

from django.utils import timezone

from record.models import Decision
from runs.models import Phase, Run
from runs.states import PHASE, RUN

REASON_CHARS = 2000


def move(phase: Phase, event: str, *, message: str = "", decision: Decision | None = None, **changes: Any) -> None:
    """Move a phase by `event`; in the caller's transaction, with the run locked."""
    if "reason" in changes:
        changes["reason"] = changes["reason"][:REASON_CHARS]
    PHASE.apply(
        phase,
        event,
        lab_id=phase.run.lab_id,
        subject=phase.subject(),
        message=message,
        decision=decision,
        data={"attempt": phase.attempt},
        **changes,
    )


def move_run(run: Run, event: str, *, message: str = "", decision: Decision | None = None, **changes: Any) -> None:
    """Move a run by `event`; in the caller's transaction, with the run locked."""
    RUN.apply(run, event, lab_id=run.lab_id, subject=run.subject(), message=message, decision=decision, **changes)


def fail_phase(phase: Phase, reason: str, **changes: Any) -> None:
    """The phase failed, for a reason in words; `rejected_by`: the decision, where it failed by that."""
    changes.setdefault("rejected_by", None)
    move(phase, "fail", message=f"{phase.named} failed: {reason}", reason=reason, ended_at=timezone.now(), **changes)
