"""Handing a gate to somebody else."""

from django.contrib.auth.models import User
from django.db import transaction

from gates.answers import clean_reason
from gates.errors import ReasonOwed
from gates.models import Gate
from gates.policy import Policy, check
from gates.services.locking import lock_gate
from gates.services.people import facts_about, roles_in
from gates.services.refusals import state_refusal
from gates.subjects import subject_of
from record.access import Ability, can, require_scope
from record.errors import BadInput, NotAllowed
from record.models import ActorKind
from record.services import Author, Ruling, record_decision, record_event


def delegate_gate(*, gate_id: int, author: Author, to_username: str, reason: str) -> Gate:
    """Let `to_username` answer too, whom the policy may not name. The delegate must be allowed to decide in the lab.

    Those may delegate who may answer, and administrators. Raises NotAllowed, BadInput or GateClosed.
    """
    why = clean_reason(reason)
    if not why:
        raise ReasonOwed("Say why you hand this gate on.")
    with transaction.atomic():
        gate = lock_gate(gate_id)
        policy = Policy.read(gate.policy)
        _refuse_delegating(gate, policy, author)
        delegate = _delegate(gate, policy, to_username)
        gate.delegated_to = delegate
        gate.save(update_fields=["delegated_to"])
        ruling = Ruling(
            "delegate",
            reason=why,
            answers={"to": delegate.get_username()},
            gate_uuid=gate.uuid,
            iteration=gate.iteration,
        )
        decision = record_decision(lab_id=gate.lab_id, subject=subject_of(gate), author=author, ruling=ruling)
        record_event(
            lab_id=gate.lab_id,
            kind="gate.delegate",
            subject=gate.subject(),
            message=f"{gate.title}, {gate.context}: {author.name} asks {delegate.get_username()} to answer: {why}",
            data={"to": delegate.get_username()},
            decision=decision,
        )
    return gate


def _refuse_delegating(gate: Gate, policy: Policy, author: Author) -> None:
    if author.user is None or author.kind != ActorKind.PERSON:
        raise NotAllowed("Only a person can hand a gate on.")
    require_scope(author.user, Ability.ANSWER)
    if closed := state_refusal(gate):
        raise closed.error()
    if not policy.delegable:
        raise NotAllowed("This gate's policy doesn't let it be handed on.")
    facts = facts_about(gate, author.user, roles=roles_in(author.user, gate.lab_id))
    refusal = check(policy, facts)
    if refusal and not can(author.user, Ability.OVERRIDE, gate.lab_id):
        raise refusal.error()


def _delegate(gate: Gate, policy: Policy, username: str) -> User:
    found = User.objects.filter(username=username).first() if "\x00" not in username else None
    if found is None or not can(found, Ability.DECIDE, gate.lab_id):
        raise BadInput(f"{username[:150]!r} can't be asked: choose somebody who may answer gates in this lab.")
    if found.pk == gate.requested_by_id and not policy.requester_may:
        raise BadInput(f"{username} asked for this gate, and its policy wants somebody else to answer it.")
    return found
