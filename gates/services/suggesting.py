"""What agents suggest at a gate: shown beside the form, counted nowhere."""

from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.utils import timezone

from gates.errors import NoSuchGate, ReasonOwed
from gates.models import Suggestion
from gates.policy import Policy
from gates.services.locking import lock_gate
from gates.services.refusals import refuse_stale, state_refusal
from gates.services.statements import read_statement
from record.access import Ability, can, require
from record.errors import BadInput, NotAllowed
from record.models import ActorKind
from record.redaction import redact
from record.services import Author, record_event

MOST_SUGGESTIONS = 100  # of one agent at one gate: each is kept for good


def suggest_answer(
    *, gate_id: int, author: Author, verdict: str, answers: Mapping[str, Any], reason: str, seen_digest: str
) -> Suggestion:
    """Keep what an agent would answer, with its reason, for the people who decide. Its earlier one is replaced.

    It is advice like what agents say that were asked: decisions name it, with its digest, where it was shown.
    It is read and checked like an answer, and is no ballot: whatever the gate's policy is, it decides nothing.
    Raises NotAllowed for people (who answer) and for agents that are no reviewers, BadInput after MOST_SUGGESTIONS of
    one agent, else one of gates.errors.
    """
    user = author.user
    if user is None or author.kind != ActorKind.AGENT:
        raise NotAllowed("Suggestions come from agents. Answer the gate instead.")
    with transaction.atomic():
        gate = lock_gate(gate_id)
        if not can(user, Ability.VIEW, gate.lab_id):
            raise NoSuchGate("There is no such gate.")
        require(user, Ability.ANSWER, gate.lab_id)
        if closed := state_refusal(gate):
            raise closed.error()
        refuse_stale(gate, seen_digest)
        statement = read_statement(
            gate, Policy.read(gate.policy), verdict=verdict, answers=answers, reason=reason, owed=False
        )
        if not statement.reason:
            raise ReasonOwed("Say what the suggestion rests on: the people who decide will read it.")
        if gate.suggestions.filter(author=user).count() >= MOST_SUGGESTIONS:
            raise BadInput(
                f"{author.name} has made {MOST_SUGGESTIONS} suggestions here: the last one stands, no more are kept.",
                code="too_many_suggestions",
            )
        gate.suggestions.filter(author=user, replaced_at=None).update(replaced_at=timezone.now())
        made = Suggestion.objects.create(
            gate=gate,
            author=user,
            author_name=author.name[:200],
            verdict=statement.verdict,
            answers=_struck(statement.answers),
            reason=redact(statement.reason),
            digest=gate.digest,
        )
        record_event(
            lab_id=gate.lab_id,
            kind="gate.suggest",
            subject=gate.subject(),
            message=f"{gate.title}, {gate.context}: {author.name} suggests {statement.label}",
            data={"verdict": statement.verdict},
        )
    return made


def _struck(value: Any) -> Any:
    """Answers without secrets: what an agent writes is kept, and shown to people."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {key: _struck(each) for key, each in value.items()}
    return [_struck(each) for each in value] if isinstance(value, list) else value
