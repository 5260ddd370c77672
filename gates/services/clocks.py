"""Time-outs, escalation, and the time in which nobody looked at the clocks."""

import logging
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from gates.models import Gate, SweepBeat
from gates.policy import Policy, Timeout, whom_text
from gates.services.advising import stop_asking
from gates.services.answering import decide
from gates.services.locking import lock_gate
from gates.services.statements import read_statement, suggested_answers
from gates.states import GATE, GateState
from gates.subjects import tell_closed
from record.errors import BadInput, ConductorError
from record.logkeys import about
from record.services import Author, record_event

log = logging.getLogger(__name__)

BEAT_S = 15  # how often the beat is written
DOWNTIME_S = 150  # the minutely sweep alone is no downtime


def time_out_gate(gate_id: int) -> bool:
    """Close a gate that is open past its deadline; whether it was.

    With a stated default the policy answers, recorded as the policy; else, or where that answer doesn't hold any more,
    the gate is timed out. An answer that was committed first has won: then this does nothing.
    """
    with transaction.atomic():
        gate = lock_gate(gate_id)
        if gate.state != GateState.OPEN or gate.due_at is None or gate.due_at > timezone.now():
            return False
        with about(gate=gate.uuid, run=gate.root_uuid):
            _time_out(gate)
    return True


def _time_out(gate: Gate) -> None:
    try:
        policy = Policy.read(gate.policy)
    except BadInput as error:  # it was spoilt by hand since; no default of it can be trusted
        _close(gate, f"nobody answered in time. {error.message}")
        return
    if policy.on_timeout is None:
        _close(gate, "nobody answered in time")
    else:
        _answer_by_default(gate, policy, policy.on_timeout)


def escalate_gate(gate_id: int) -> bool:
    """Let those whom the policy names for it answer too, once a gate has waited long enough; whether it had."""
    with transaction.atomic():
        gate = lock_gate(gate_id)
        now = timezone.now()
        late = gate.state == GateState.OPEN and gate.escalates_at is not None and gate.escalates_at <= now
        if not late or gate.escalated_at is not None:
            return False
        with about(gate=gate.uuid, run=gate.root_uuid):
            _escalate(gate, now)
    return True


def _escalate(gate: Gate, now: datetime) -> None:
    gate.escalated_at = now
    gate.save(update_fields=["escalated_at"])
    whom = whom_text(Policy.read(gate.policy).escalate_to)
    record_event(
        lab_id=gate.lab_id,
        kind="gate.escalate",
        subject=gate.subject(),
        message=f"{gate.title}, {gate.context}: waits unanswered; {whom} may answer it too",
        data={"to": whom},
    )


def extend_deadlines(*, gap: timedelta) -> int:
    """Move the clocks of open gates by a downtime of length `gap` that ends now; how many were moved.

    A gate that opened within it is moved by its own part only. What was given already is not given twice.
    """
    with transaction.atomic():
        now = timezone.now()
        beat = _locked_beat(now - gap)
        moved = _extend(max(beat.at, now - gap), now)
        SweepBeat.objects.filter(pk=beat.pk).update(at=now)
    return moved


def note_beat() -> int:
    """Note that somebody looks at the clocks; extends deadlines where nobody did for long. How many were moved."""
    now = timezone.now()
    beat = SweepBeat.objects.filter(pk=1).first()
    since = now - beat.at if beat else timedelta(seconds=BEAT_S)
    if since < timedelta(seconds=BEAT_S):
        return 0
    if since > timedelta(seconds=DOWNTIME_S):
        return extend_deadlines(gap=since)
    SweepBeat.objects.update_or_create(pk=1, defaults={"at": now})
    return 0


def _locked_beat(otherwise: datetime) -> SweepBeat:
    SweepBeat.objects.get_or_create(pk=1, defaults={"at": otherwise})
    return SweepBeat.objects.select_for_update(no_key=True).get(pk=1)


def _extend(since: datetime, now: datetime) -> int:
    gap = now - since
    waiting = Gate.objects.filter(state=GateState.OPEN)
    list(waiting.order_by("id").select_for_update(no_key=True).values_list("pk", flat=True))  # the order of all others
    moved = 0
    for field in ("due_at", "escalates_at"):
        older = waiting.filter(opened_at__lte=since, **{f"{field}__isnull": False})
        moved += older.update(**{field: F(field) + gap})
        for gate in waiting.filter(opened_at__gt=since, **{f"{field}__isnull": False}):
            own = now - (gate.opened_at or since)
            moved += Gate.objects.filter(pk=gate.pk).update(**{field: getattr(gate, field) + own})
    if moved:
        log.info("clocks of open gates moved by %s of downtime (%s clocks)", gap, moved)
    return moved


def _answer_by_default(gate: Gate, policy: Policy, default: Timeout) -> None:
    reason = "Nobody answered in time."
    try:
        answers = suggested_answers(gate) if default.answers is None else default.answers
        statement = read_statement(gate, policy, verdict=default.verdict, answers=answers, reason=reason, owed=False)
    except ConductorError as error:
        _close(gate, f"nobody answered in time, and the stated default doesn't hold: {error.message}")
        return
    decide(gate, Author.policy("time-out"), statement)


def _close(gate: Gate, why: str) -> None:
    stop_asking(gate, Author.policy("time-out"), "the gate timed out")
    GATE.apply(
        gate,
        "time_out",
        lab_id=gate.lab_id,
        subject=gate.subject(),
        message=f"{gate.title}, {gate.context}: {why.rstrip('.')}. Reopen it to decide.",
        error=why[:2000],
        ended_at=timezone.now(),
    )
    tell_closed(gate)
