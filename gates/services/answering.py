"""Answers: one winner, and a clear word to everybody else."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from gates import advice
from gates.digest import items_of
from gates.errors import NoSuchGate, ReasonOwed, Refusal
from gates.models import Ballot, Gate
from gates.policy import Policy
from gates.services.advising import stop_asking
from gates.services.locking import lock_gate
from gates.services.refusals import may_answer, refuse_stale, when
from gates.services.statements import Statement, last_decision, read_statement
from gates.states import GATE
from gates.subjects import subject_of
from jobs.faults import point
from jobs.wake import wake_on_commit
from record.access import Ability, can, require, roles_with
from record.errors import NotAllowed
from record.models import ActorKind, Decision, Membership
from record.services import Author, Ruling, record_decision, record_event


@dataclass(frozen=True)
class Answer:
    """What became of an answer; `decision` is None while the gate waits for more ballots, and `message` says so."""

    gate: Gate
    ballot: Ballot
    decision: Decision | None
    message: str


def answer_gate(
    *,
    gate_id: int,
    author: Author,
    verdict: str,
    answers: Mapping[str, Any],
    reason: str = "",
    seen_digest: str,
    seen_advice: Iterable[Any] = (),
    override: bool = False,
) -> Answer:
    """Cast a ballot; with the last one that the policy asks for, decide.

    `answers` are the form's raw data (a QueryDict or JSON values); `seen_digest` is the digest that was shown with the
    evidence; `seen_advice` are the uuids of what agents had said by then and was shown too. With `override` an
    administrator, with a reason, decides in spite of who was to answer and how many.
    Raises one of gates.errors: the first answer that is committed wins, and the others are told whose it was.
    """
    with transaction.atomic():
        gate = lock_gate(gate_id)
        policy = Policy.read(gate.policy)
        user = _permitted(gate, policy, author, override)
        refuse_stale(gate, seen_digest)
        statement = read_statement(gate, policy, verdict=verdict, answers=answers, reason=reason)
        if override and not statement.reason:
            raise ReasonOwed("An override needs a reason: say why you decide in spite of the gate's policy.")
        ballot = _cast(gate, user, author, statement, advice.seen_advice(gate, seen_advice))
        agreeing = [each for each in _standing(gate, ballot, policy) if statement.agrees_with(each)]
        if not override and len(agreeing) < policy.quorum:
            return Answer(gate, ballot, None, _counted(gate, ballot, statement, len(agreeing), policy.quorum))
        seen = {key: digest for each in agreeing for key, digest in each.advice.items()}
        decision = decide(gate, author, statement, override=override, seen=seen)
        point("answer_before_commit", gate.pk)
    point("answer_committed", gate.pk)
    return Answer(gate, ballot, decision, f"{statement.label}: recorded as decision {decision.number}.")


def decide(
    gate: Gate, author: Author, statement: Statement, *, override: bool = False, seen: dict[str, str] | None = None
) -> Decision:
    """Write the decision on a locked, open gate, and have it applied once this is committed.

    `seen` is the advice of agents that was before those who decided: uuid -> digest.
    """
    stop_asking(gate, author, "the gate was decided")
    ruling = Ruling(
        statement.verdict,
        reason=statement.reason,
        answers=statement.answers,
        evidence={"digest": gate.digest, "items": items_of(gate)} | ({"advice": seen} if seen else {}),
        gate_uuid=gate.uuid,
        iteration=gate.iteration,
        supersedes=last_decision(gate),
        override=override,
    )
    decision = record_decision(lab_id=gate.lab_id, subject=subject_of(gate), author=author, ruling=ruling)
    GATE.apply(
        gate,
        "decide",
        lab_id=gate.lab_id,
        subject=gate.subject(),
        message=f"{gate.title}, {gate.context}: {statement.label} by {author.name}",
        data={"verdict": statement.verdict},
        decision=decision,
        decision_id=decision.pk,
    )
    wake_on_commit()
    return decision


def _permitted(gate: Gate, policy: Policy, author: Author, override: bool) -> User:
    user = author.user
    if user is None:
        raise NotAllowed("Only somebody who is signed in can answer a gate.")
    if not can(user, Ability.VIEW, gate.lab_id):
        raise NoSuchGate("There is no such gate.")
    refusal = may_answer(gate, user)
    if override and refusal and refusal.code == "not_allowed":
        if author.kind != ActorKind.PERSON:
            raise NotAllowed("Only a person can overrule a gate's policy.")
        refusal = None
    if override:
        require(user, Ability.OVERRIDE, gate.lab_id)
    if refusal:
        raise refusal.error()
    return user


def _cast(gate: Gate, user: User, author: Author, statement: Statement, seen: dict[str, str]) -> Ballot:
    earlier = gate.ballots.filter(voter=user, replaced_at=None).first()
    if earlier is not None:
        if statement.agrees_with(earlier):
            message = f"You gave this answer {when(earlier.at)}; it is counted. Another person must answer too."
            raise Refusal("already_answered", message).error()
        gate.ballots.filter(pk=earlier.pk).update(replaced_at=timezone.now())
    ballot = Ballot.objects.create(
        gate=gate,
        voter=user,
        voter_name=author.name[:200],
        voter_kind=author.kind,
        door=author.door,
        verdict=statement.verdict,
        answers=statement.answers,
        reason=statement.reason,
        digest=gate.digest,
        advice=seen,
    )
    record_event(
        lab_id=gate.lab_id,
        kind="gate.ballot",
        subject=gate.subject(),
        message=f"{gate.title}, {gate.context}: {author.name} says {statement.label}",
        data={"verdict": statement.verdict, "replaces": earlier.verdict if earlier else None},
    )
    return ballot


def _standing(gate: Gate, latest: Ballot, policy: Policy) -> list[Ballot]:
    """The ballots that count beside the latest: not those of people who may decide no more, or whose account is closed.

    Whom the gate was handed to meanwhile takes nothing from who answered before.
    """
    if policy.quorum == 1:
        return [latest]
    ballots = list(gate.ballots.filter(replaced_at=None).order_by("id"))
    may = Membership.objects.filter(lab_id=gate.lab_id, role__in=roles_with(Ability.DECIDE), user__is_active=True)
    deciders = set(may.filter(user__in=[each.voter_id for each in ballots]).values_list("user_id", flat=True))
    return [each for each in ballots if each.pk == latest.pk or each.voter_id in deciders]


def _counted(gate: Gate, ballot: Ballot, statement: Statement, count: int, quorum: int) -> str:
    others = gate.ballots.filter(replaced_at=None).exclude(pk=ballot.pk)
    apart = [f"{each.voter_name} ({each.verdict})" for each in others if not statement.agrees_with(each)]
    unlike = f" It is not the same as the answer of {', '.join(apart)}." if apart else ""
    return f"Your answer is counted: {count} of {quorum} that must agree.{unlike}"
