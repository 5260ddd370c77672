"""Asking for a gate, asking again, and taking the question back."""

from typing import Any

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.utils import timezone

from gates.answers import clean_reason
from gates.errors import GateClosed, ReasonOwed
from gates.models import Gate
from gates.policy import Policy
from gates.services.advising import stop_asking
from gates.services.locking import lock_gate
from gates.services.people import require_any
from gates.services.preparing import begin_preparing, stop_preparing
from gates.states import GATE, GateState
from gates.subjects import Renewal, renewal_of, subject_of, tell_closed, tell_reopened
from record.access import Ability
from record.errors import StaleState
from record.models import ActorKind, Decision
from record.services import Author, Ruling, Subject, record_decision, record_event


def request_gate(
    *,
    lab_id: int,
    subject: Subject,
    key: str,
    protocol: str,
    title: str,
    context: str,
    options: dict[str, Any],
    policy: dict[str, Any],
    requested_by: User | None,
) -> Gate:
    """Put a question to people about `subject`, and begin preparing its evidence.

    Raises BadInput for a policy that can't be used, StaleState where this gate is in progress or was asked before (an
    ended gate is asked again by reopening it).
    """
    Policy.read(policy)
    with transaction.atomic():
        gate = _create(
            Gate(
                lab_id=lab_id,
                subject_kind=subject.kind,
                subject_uuid=subject.uuid,
                root_uuid=subject.root,
                key=key,
                protocol=protocol,
                title=title[:200],
                context=context[:300],
                options=options,
                policy=policy,
                requested_by=requested_by,
            )
        )
        record_event(lab_id=lab_id, kind="gate.request", subject=gate.subject(), data={"protocol": protocol})
        begin_preparing(gate)
    return gate


def reopen_gate(*, gate_id: int, author: Author, reason: str) -> Gate:
    """Ask again: a new iteration with the policy as it stands now; the old one stays as it was.

    Allowed for ended gates and for one whose decision can't be applied. Where a person asks, that is a decision of
    theirs, and the next one supersedes the last. Where the work itself comes to the gate again (a policy asks), there
    is new work to judge, and what was decided about the old work stands.
    """
    why = _stated(reason, "Say why the gate is reopened: the person who decided will read it.")
    with transaction.atomic():
        old = lock_gate(gate_id)
        require_any(author, old.lab_id, Ability.DECIDE, what="reopen a gate")
        _refuse_reopening(old)
        if old.state == GateState.APPLY_FAILED:
            _withdraw(old, message=f"Withdrawn to be asked again, by {author.name}: {why}")
        reconsiders = author.kind != ActorKind.POLICY
        fresh = _next_iteration(old, renewal_of(old), reconsiders)
        tell_reopened(fresh)
        verdict = _judge("reopen", old, author, why) if reconsiders else None
        record_event(
            lab_id=old.lab_id,
            kind="gate.reopen",
            subject=fresh.subject(),
            message=f"{old.title}, {old.context}: reopened by {author.name}: {why}",
            data={"iteration": fresh.iteration},
            decision=verdict,
        )
        begin_preparing(fresh)
    return fresh


def withdraw_gate(*, gate_id: int, author: Author, reason: str = "", decision: Decision | None = None) -> None:
    """Take the question back; nobody can answer it any more. What comes after it stays closed.

    A person owes a reason and is recorded with a decision of their own, unless `decision` (say, the cancelling of the
    whole run) already says it.
    """
    with transaction.atomic():
        gate = lock_gate(gate_id)
        require_any(author, gate.lab_id, Ability.OPERATE, Ability.DECIDE, what="withdraw a gate")
        if not GATE.allows(gate.state, "withdraw"):
            raise GateClosed(f"{_named(gate)} is {gate.state_text}: it can't be withdrawn now.")
        why = clean_reason(reason)
        if author.kind != ActorKind.POLICY and decision is None:
            why = _stated(reason, "Say why the gate is withdrawn.")
        stop_preparing(gate, author)
        stop_asking(gate, author, "the gate was withdrawn")
        _withdraw(gate, message=f"Withdrawn by {author.name}: {why}".rstrip(": "), decision=decision)
        tell_closed(gate)
        if author.kind != ActorKind.POLICY and decision is None:
            _judge("withdraw", gate, author, why)  # last: it locks the head of the lab's chain


def _create(gate: Gate) -> Gate:
    try:
        with transaction.atomic():
            gate.save()
    except IntegrityError as error:
        raise StaleState(f"The gate {gate.title} ({gate.context}) has been asked for already.") from error
    return gate


def _withdraw(gate: Gate, *, message: str, decision: Decision | None = None) -> None:
    GATE.apply(
        gate,
        "withdraw",
        lab_id=gate.lab_id,
        subject=gate.subject(),
        message=f"{_named(gate)}. {message}",
        decision=decision,
        ended_at=timezone.now(),
    )


def _refuse_reopening(gate: Gate) -> None:
    later = Gate.objects.filter(previous=gate).first()
    if later is not None:
        raise GateClosed(
            f"{_named(gate)} has been reopened already: iteration {later.iteration} is {later.state_text}.",
            extra={"gate": later.pk},
        )
    if not gate.is_ended and gate.state != GateState.APPLY_FAILED:
        raise GateClosed(f"{_named(gate)} is {gate.state_text}: only one that has ended can be reopened.")


def _next_iteration(old: Gate, renewal: Renewal, reconsiders: bool) -> Gate:
    Policy.read(renewal.policy)
    return _create(
        Gate(
            lab_id=old.lab_id,
            subject_kind=old.subject_kind,
            subject_uuid=old.subject_uuid,
            root_uuid=old.root_uuid,
            key=old.key,
            iteration=old.iteration + 1,
            previous=old,
            reconsiders=reconsiders,
            requested_by=old.requested_by,
            protocol=renewal.protocol,
            title=renewal.title[:200],
            context=renewal.context[:300],
            options=renewal.options,
            policy=renewal.policy,
        )
    )


def _judge(verdict: str, gate: Gate, author: Author, reason: str) -> Decision:
    ruling = Ruling(verdict, reason=reason, gate_uuid=gate.uuid, iteration=gate.iteration)
    return record_decision(lab_id=gate.lab_id, subject=subject_of(gate), author=author, ruling=ruling)


def _stated(reason: str, otherwise: str) -> str:
    why = clean_reason(reason)
    if not why:
        raise ReasonOwed(otherwise)
    return why


def _named(gate: Gate) -> str:
    return f"The gate {gate.title} ({gate.context})"
