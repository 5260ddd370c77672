"""Writing back what was decided: once in effect, however often it is tried."""

import logging
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from gates.models import Gate
from gates.protocols import protocol_for
from gates.services.locking import lock_gate
from gates.services.people import require_any
from gates.states import GATE, GateState
from gates.subjects import keeper_of
from jobs.faults import point
from jobs.wake import wake_on_commit
from record.access import Ability
from record.errors import ConductorError, InvalidTransition, StaleState
from record.logkeys import about
from record.models import Decision
from record.services import Author, record_event

log = logging.getLogger(__name__)

FIRST_PAUSE_S, LONGEST_PAUSE_S = 5, 600
MAX_ATTEMPTS = 8  # then somebody has to look, and to ask for it


def apply_gate(gate_id: int) -> bool:
    """Write back the gate's decision and go on after it; whether it is applied now.

    Safe to call twice and after a crash at any line: the protocol's `persist` is idempotent by the decision's uuid, and
    of two that apply at once only the later claim can finish. A failure becomes `apply_failed`, tried again after a
    pause.
    """
    claimed = _claim(gate_id)
    if claimed is None:
        return False
    with about(gate=claimed[0].uuid, run=claimed[0].root_uuid):
        return _apply(*claimed)


def _apply(gate: Gate, decision: Decision) -> bool:
    point("apply_claimed", gate.pk)
    try:
        protocol_for(gate).persist(gate, decision)
        point("apply_persisted", gate.pk)
        _finish(gate, decision)
        point("applied", gate.pk)
    except StaleState as error:
        log.info("gate %s: another took over applying it: %s", gate.pk, error)
        return False
    except Exception as error:  # one row of the sweep; the protocol's code is not ours
        log.exception("gate %s: its decision could not be applied", gate.pk)
        _fail(gate, error)
        return False
    return True


def retry_applying(*, gate_id: int, author: Author) -> None:
    """Have a decision that could not be applied tried again now."""
    with transaction.atomic():
        gate = lock_gate(gate_id)
        require_any(author, gate.lab_id, Ability.OPERATE, Ability.DECIDE, what="have a decision applied again")
        if gate.state != GateState.APPLY_FAILED:
            raise InvalidTransition(
                f"{gate.title} ({gate.context}) is {gate.state_text}: there is nothing to apply again."
            )
        gate.apply_attempts, gate.apply_after = 0, timezone.now()
        gate.save(update_fields=["apply_attempts", "apply_after"])
        record_event(
            lab_id=gate.lab_id,
            kind="gate.retry_applying",
            subject=gate.subject(),
            message=f"{gate.title}, {gate.context}: {author.name} asks to apply its decision again",
        )
        wake_on_commit()


def _claim(gate_id: int) -> tuple[Gate, Decision] | None:
    with transaction.atomic():
        gate = lock_gate(gate_id)
        if not Gate.objects.to_apply().filter(pk=gate.pk).exists() or gate.decision is None:
            return None
        changes: dict[str, Any] = {
            "apply_attempts": gate.apply_attempts + 1,
            "apply_after": timezone.now() + timedelta(seconds=settings.GATE_APPLY_LEASE_S),
        }
        if gate.state == GateState.APPLYING and gate.apply_attempts >= MAX_ATTEMPTS:
            _give_up(gate)
            return None
        if gate.state == GateState.APPLYING:  # whoever began is gone
            Gate.objects.filter(pk=gate.pk).update(**changes)
            gate.refresh_from_db()
        else:
            event = "begin_applying" if gate.state == GateState.DECIDED else "retry_applying"
            GATE.apply(gate, event, lab_id=gate.lab_id, subject=gate.subject(), **changes)
        return gate, gate.decision


def _finish(gate: Gate, decision: Decision) -> None:
    with transaction.atomic():
        current = lock_gate(gate.pk)
        GATE.apply(
            current,
            "apply",
            lab_id=gate.lab_id,
            subject=gate.subject(),
            decision=decision,
            where={"apply_attempts": gate.apply_attempts},
            error="",
            apply_after=None,
            ended_at=timezone.now(),
        )
        keeper_of(current).applied(current, decision)
        wake_on_commit()
        point("apply_before_commit", gate.pk)


def _fail(gate: Gate, error: Exception) -> None:
    text = error.message if isinstance(error, ConductorError) else f"{type(error).__name__}: {error}"
    text = text.replace("\x00", "")[:2000]
    with transaction.atomic():
        current = lock_gate(gate.pk)
        if current.state != GateState.APPLYING or current.apply_attempts != gate.apply_attempts:
            return
        GATE.apply(
            current,
            "fail_applying",
            lab_id=gate.lab_id,
            subject=gate.subject(),
            message=f"{gate.title}, {gate.context}: the decision stands but could not be applied: {text}",
            error=text,
            apply_after=_next_try(current.apply_attempts),
        )


def _give_up(gate: Gate) -> None:
    text = f"Applying it was begun {gate.apply_attempts} times and never ended; look into the logs, then try again."
    GATE.apply(
        gate,
        "fail_applying",
        lab_id=gate.lab_id,
        subject=gate.subject(),
        message=f"{gate.title}, {gate.context}: {text}",
        error=text,
        apply_after=None,
    )


def _next_try(attempts: int) -> datetime | None:
    if attempts >= MAX_ATTEMPTS:
        return None
    return timezone.now() + timedelta(seconds=min(FIRST_PAUSE_S * 2 ** (attempts - 1), LONGEST_PAUSE_S))
