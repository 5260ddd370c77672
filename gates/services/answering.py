"""Answers: one winner, and a clear word to everybody else."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from gates.answers import clean_reason, differences
from gates.digest import items_of, what_changed
from gates.errors import InvalidAnswers, NoSuchGate, ReasonOwed, Refusal, StaleAnswer
from gates.models import Ballot, Gate
from gates.policy import Policy, check, reason_owed
from gates.protocols import RESERVED, GateProtocol, Verdict, find_protocol, protocol_for, unknown_text
from gates.services.locking import lock_gate
from gates.services.people import facts_about, roles_in
from gates.services.waking import wake_on_commit
from gates.states import GATE, GateState
from gates.subjects import subject_of
from record.access import Ability, Actor, can, require
from record.canonical import canonical_text
from record.errors import BadInput, NotAllowed
from record.models import ActorKind, Decision
from record.services import Author, Ruling, record_decision, record_event

_DIGEST = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True)
class Answer:
    """What became of an answer; `decision` is None while the gate waits for more ballots, and `message` says so."""

    gate: Gate
    ballot: Ballot
    decision: Decision | None
    message: str


@dataclass(frozen=True)
class Statement:
    """An answer that has been checked: its answers as JSON values, and where they depart from the suggestion."""

    verdict: str
    label: str
    answers: dict[str, Any]
    reason: str
    binding: bool

    def agrees_with(self, ballot: Ballot) -> bool:
        """Whether a ballot says the same: the verdict, and the answers where they are what counts."""
        same = ballot.verdict == self.verdict
        return same and (not self.binding or canonical_text(ballot.answers) == canonical_text(self.answers))


def may_answer(gate: Gate, user: Actor, *, kind: str = ActorKind.PERSON) -> Refusal | None:
    """Why this person may not answer the gate now, or None. Pages, API and the service itself ask this."""
    roles = roles_in(user, gate.lab_id)
    if not roles:
        return Refusal("not_allowed", "You are not a member of this gate's lab.")
    if closed := state_refusal(gate):
        return closed
    if find_protocol(gate) is None:
        return Refusal("unknown_protocol", unknown_text(gate), {"protocol": gate.protocol})
    return check(Policy.read(gate.policy), facts_about(gate, user, kind=kind, roles=roles))


def state_refusal(gate: Gate) -> Refusal | None:
    """Why a gate in this state takes no answer: who decided it, when and how, or what else became of it."""
    if gate.state == GateState.OPEN:
        return None
    if gate.decision is not None:
        return _decided(gate, gate.decision)
    text = {
        GateState.PREPARING: "its evidence is being prepared; wait until it opens",
        GateState.PREPARE_FAILED: "its evidence could not be prepared; somebody must have it prepared again first",
        GateState.TIMED_OUT: f"it timed out {_when(gate.ended_at)}; reopen it to decide",
        GateState.WITHDRAWN: f"it was withdrawn {_when(gate.ended_at)}",
    }[GateState(gate.state)]
    message = f"{gate.title} ({gate.context}) can't be answered: {text}.{_later_text(gate)}"
    return Refusal("not_open", message, {"state": gate.state})


def answer_gate(
    *,
    gate_id: int,
    author: Author,
    verdict: str,
    answers: Mapping[str, Any],
    reason: str = "",
    seen_digest: str,
    override: bool = False,
) -> Answer:
    """Cast a ballot; with the last one that the policy asks for, decide.

    `answers` are the form's raw data (a QueryDict or JSON values); `seen_digest` is the digest that was shown with the
    evidence. With `override` an administrator, with a reason, decides in spite of who was to answer and how many.
    Raises one of gates.errors: the first answer that is committed wins, and the others are told whose it was.
    """
    with transaction.atomic():
        gate = lock_gate(gate_id)
        policy = Policy.read(gate.policy)
        user = _permitted(gate, policy, author, override)
        _refuse_stale(gate, seen_digest)
        statement = read_statement(gate, policy, verdict=verdict, answers=answers, reason=reason)
        if override and not statement.reason:
            raise ReasonOwed("An override needs a reason: say why you decide in spite of the gate's policy.")
        ballot = _cast(gate, user, author, statement)
        count = sum(statement.agrees_with(each) for each in gate.ballots.filter(replaced_at=None))
        if not override and count < policy.quorum:
            return Answer(gate, ballot, None, _counted(gate, ballot, statement, count, policy.quorum))
        decision = decide(gate, author, statement, override=override)
    return Answer(gate, ballot, decision, f"{statement.label}: recorded as decision {decision.number}.")


def decide(gate: Gate, author: Author, statement: Statement, *, override: bool = False) -> Decision:
    """Write the decision on a locked, open gate, and have it applied once this is committed."""
    ruling = Ruling(
        statement.verdict,
        reason=statement.reason,
        answers=statement.answers,
        evidence={"digest": gate.digest, "items": items_of(gate)},
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


def read_statement(
    gate: Gate, policy: Policy, *, verdict: str, answers: Mapping[str, Any], reason: str, owed: bool = True
) -> Statement:
    """Check an answer against the protocol's verdicts and form, and whether it owes a reason (unless not `owed`)."""
    protocol = protocol_for(gate)
    verdicts = protocol.verdicts_at(gate)
    chosen = verdicts.get(verdict) if isinstance(verdict, str) else None
    if chosen is None:
        raise BadInput(
            f"{str(verdict)[:60]!r} is no verdict of this gate; say one of: {', '.join(verdicts)}.",
            code="bad_verdict",
            extra={"verdicts": list(verdicts)},
        )
    cleaned = _read_answers(gate, protocol, chosen, answers)
    why = clean_reason(reason)
    differing = differences(cleaned, _suggested(gate, protocol))
    earlier = last_decision(gate)
    replaces = f"{earlier.verdict} by {earlier.actor_name}" if earlier else ""
    debt = reason_owed(
        policy, needs_reason=chosen.needs_reason, label=chosen.label, differing=differing, replaces=replaces
    )
    if owed and debt and not why:
        raise ReasonOwed(debt, extra={"differing": differing})
    return Statement(verdict, chosen.label, cleaned, why, chosen.needs_answers)


def suggested_answers(gate: Gate) -> dict[str, Any]:
    """Those parts of the suggestion that the gate's form asks for."""
    fields = protocol_for(gate).form(gate).fields
    return {name: value for name, value in gate.suggestion.items() if name in fields}


def _permitted(gate: Gate, policy: Policy, author: Author, override: bool) -> User:
    user = author.user
    if user is None:
        raise NotAllowed("Only somebody who is signed in can answer a gate.")
    if not can(user, Ability.VIEW, gate.lab_id):
        raise NoSuchGate("There is no such gate.")
    refusal = may_answer(gate, user, kind=author.kind)
    if override and refusal and refusal.code == "not_allowed":
        if author.kind != ActorKind.PERSON:
            raise NotAllowed("Only a person can overrule a gate's policy.")
        refusal = None
    if override:
        require(user, Ability.OVERRIDE, gate.lab_id)
    if refusal:
        raise refusal.error()
    return user


def _refuse_stale(gate: Gate, seen_digest: str) -> None:
    if seen_digest == gate.digest:
        return
    if not seen_digest:
        raise StaleAnswer("Say which evidence you saw (its digest): an answer counts for what was shown, nothing else.")
    seen = _seen_iteration(gate, seen_digest) if _DIGEST.fullmatch(str(seen_digest)) else None
    changed = what_changed(seen, gate) if seen else []
    told = "; ".join(changed) or "you answered on evidence that this gate never showed"
    raise StaleAnswer(
        f"What you saw is not what {gate.title} ({gate.context}) shows now ({told}). Look again, and answer on that.",
        extra={"changed": changed, "digest": gate.digest},
    )


def _seen_iteration(gate: Gate, digest: str) -> Gate | None:
    iterations = Gate.objects.filter(subject_uuid=gate.subject_uuid, key=gate.key, digest=digest)
    return iterations.exclude(pk=gate.pk).order_by("-iteration").first()


def _read_answers(gate: Gate, protocol: GateProtocol, verdict: Verdict, answers: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(answers, Mapping):
        raise InvalidAnswers("Give the answers as field -> value.")
    form = protocol.form(gate, data=answers)
    _refuse_unknown_fields(form.fields, answers)
    if not verdict.needs_answers:
        for field in form.fields.values():
            field.required = False
    if not form.is_valid():
        errors = {name: [str(text) for text in texts] for name, texts in form.errors.items()}
        first = next(iter(errors.items()))
        label = form.fields[first[0]].label or first[0] if first[0] in form.fields else "The form"
        raise InvalidAnswers(f"{label}: {first[1][0]}", extra={"errors": errors})
    return protocol.answers(form)


def _refuse_unknown_fields(fields: Mapping[str, Any], answers: Mapping[str, Any]) -> None:
    """A program's misspelt field must not pass for one left empty. Pages post more than the form's fields."""
    if hasattr(answers, "getlist"):
        return
    flat = tuple(f"{name}-" for name in fields)
    unknown = [
        name for name in map(str, answers) if name not in fields and name not in RESERVED and not name.startswith(flat)
    ]
    if unknown:
        raise InvalidAnswers(
            f"This gate asks for no {unknown[0][:60]!r}; its fields are: {', '.join(fields) or 'none'}.",
            extra={"errors": {name[:60]: ["There is no such field."] for name in unknown[:20]}},
        )


def _suggested(gate: Gate, protocol: GateProtocol) -> dict[str, Any]:
    """The suggestion as the form would clean it, so that 0.5 and "0.50" are no difference."""
    form = protocol.form(gate, data=gate.suggestion)
    for field in form.fields.values():
        field.required = False
    cleaned = protocol.answers(form) if form.is_valid() else {}
    return {name: cleaned.get(name, value) for name, value in gate.suggestion.items()}


def _cast(gate: Gate, user: User, author: Author, statement: Statement) -> Ballot:
    earlier = gate.ballots.filter(voter=user, replaced_at=None).first()
    if earlier is not None:
        if statement.agrees_with(earlier):
            message = f"You gave this answer {_when(earlier.at)}; it is counted. Another person must answer too."
            raise Refusal("already_answered", message).error()
        gate.ballots.filter(pk=earlier.pk).update(replaced_at=timezone.now())
    ballot = Ballot.objects.create(
        gate=gate,
        voter=user,
        voter_name=author.name[:200],
        door=author.door,
        verdict=statement.verdict,
        answers=statement.answers,
        reason=statement.reason,
        digest=gate.digest,
    )
    record_event(
        lab_id=gate.lab_id,
        kind="gate.ballot",
        subject=gate.subject(),
        message=f"{gate.title}, {gate.context}: {author.name} says {statement.label}",
        data={"verdict": statement.verdict, "replaces": earlier.verdict if earlier else None},
    )
    return ballot


def _counted(gate: Gate, ballot: Ballot, statement: Statement, count: int, quorum: int) -> str:
    others = gate.ballots.filter(replaced_at=None).exclude(pk=ballot.pk)
    apart = [f"{each.voter_name} ({each.verdict})" for each in others if not statement.agrees_with(each)]
    unlike = f" It is not the same as the answer of {', '.join(apart)}." if apart else ""
    return f"Your answer is counted: {count} of {quorum} that must agree.{unlike}"


def _decided(gate: Gate, decision: Decision) -> Refusal:
    message = (
        f"{gate.title} ({gate.context}) has been decided: {decision.verdict} by {decision.actor_name} "
        f"{_when(decision.at)}. Your answer changed nothing.{_later_text(gate)}"
    )
    extra = {
        "verdict": decision.verdict,
        "by": decision.actor_name,
        "at": decision.at.isoformat(),
        "decision": str(decision.uuid),
    }
    return Refusal("decided", message, extra)


def _later_text(gate: Gate) -> str:
    later = Gate.objects.filter(previous=gate).first()
    if later is None:
        return ""
    changed = what_changed(gate, later) if later.digest else []
    told = f" ({'; '.join(changed)})" if changed else ""
    return f" It has been reopened as iteration {later.iteration}, which is {later.state_text}{told}."


def last_decision(gate: Gate) -> Decision | None:
    """The decision that one on this gate would supersede: of the latest iteration before it that has one, as far back
    as people wanted the question asked again."""
    while gate.reconsiders and gate.previous is not None:
        gate = gate.previous
        if gate.decision is not None:
            return gate.decision
    return None


def _when(moment: Any) -> str:
    return f"on {timezone.localtime(moment):%-d %B %Y at %H:%M %Z}" if moment else "earlier"
