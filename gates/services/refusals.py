"""Why an answer is refused: who may not, what became of the gate, what was seen."""

import re
from datetime import datetime

from django.utils import timezone

from gates.digest import listed, what_changed
from gates.errors import Refusal, StaleAnswer
from gates.models import Gate
from gates.policy import Policy, check
from gates.protocols import find_protocol, unknown_text
from gates.services.adding import added_since
from gates.services.people import facts_about, roles_in
from gates.states import GateState
from record.access import Ability, Actor, in_scope, scopes_with
from record.models import Decision

_DIGEST = re.compile("[0-9a-f]{64}")


def may_answer(gate: Gate, user: Actor) -> Refusal | None:
    """Why this person may not answer the gate now, or None. Pages, API and the service itself ask this."""
    roles = roles_in(user, gate.lab_id)
    if not roles:
        return Refusal("not_allowed", "You are not a member of this gate's lab.")
    if not in_scope(user, Ability.ANSWER):
        return Refusal(
            "not_allowed", f"This token is not for answering gates: {' or '.join(scopes_with(Ability.ANSWER))} is."
        )
    if closed := state_refusal(gate):
        return closed
    if find_protocol(gate) is None:
        return Refusal("unknown_protocol", unknown_text(gate), {"protocol": gate.protocol})
    return check(Policy.read(gate.policy), facts_about(gate, user, roles=roles))


def state_refusal(gate: Gate) -> Refusal | None:
    """Why a gate in this state takes no answer: who decided it, when and how, or what else became of it."""
    if gate.state == GateState.OPEN:
        return None
    if gate.decision is not None:
        return _decided(gate, gate.decision)
    text = {
        GateState.PREPARING: "its evidence is being prepared; wait until it opens",
        GateState.PREPARE_FAILED: "its evidence could not be prepared; somebody must have it prepared again first",
        GateState.TIMED_OUT: f"it timed out {when(gate.ended_at)}; reopen it to decide",
        GateState.WITHDRAWN: f"it was withdrawn {when(gate.ended_at)}",
    }[GateState(gate.state)]
    message = f"{gate.title} ({gate.context}) can't be answered: {text}.{_later_text(gate)}"
    return Refusal("not_open", message, {"state": gate.state})


def refuse_stale(gate: Gate, seen_digest: str) -> None:
    """Raise StaleAnswer, with what changed, unless `seen_digest` is that of what the gate shows."""
    if seen_digest == gate.digest:
        return
    if not seen_digest:
        raise StaleAnswer("Say which evidence you saw (its digest): an answer counts for what was shown, nothing else.")
    changed = _changed_since(gate, seen_digest) if _DIGEST.fullmatch(str(seen_digest)) else []
    told = "; ".join(changed) or "you answered on evidence that this gate never showed"
    raise StaleAnswer(
        f"What you saw is not what {gate.title} ({gate.context}) shows now ({told}). Look again, and answer on that.",
        extra={"changed": changed, "digest": gate.digest},
    )


def _changed_since(gate: Gate, digest: str) -> list[str]:
    """How what the gate shows differs from what had that digest, in words; empty where nothing here ever had it."""
    if added := added_since(gate, digest):
        return [listed("new", added)]
    seen = _seen_iteration(gate, digest)
    return what_changed(seen, gate) if seen else []


def _seen_iteration(gate: Gate, digest: str) -> Gate | None:
    iterations = Gate.objects.filter(subject_uuid=gate.subject_uuid, key=gate.key, digest=digest)
    return iterations.exclude(pk=gate.pk).order_by("-iteration").first()


def _decided(gate: Gate, decision: Decision) -> Refusal:
    message = (
        f"{gate.title} ({gate.context}) has been decided: {decision.verdict} by {decision.actor_name} "
        f"{when(decision.at)}. Your answer changed nothing.{_later_text(gate)}"
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


def when(moment: datetime | None) -> str:
    """A moment as people write it, with its time zone."""
    return f"on {timezone.localtime(moment):%-d %B %Y at %H:%M %Z}" if moment else "earlier"
