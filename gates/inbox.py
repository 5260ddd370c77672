"""What waits for whom."""

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser

from gates.models import Ballot, Gate
from gates.policy import Policy, check
from gates.protocols import find_protocol
from gates.querysets import GateQuerySet
from gates.services.people import facts_about
from record.access import Ability, lab_ids
from record.errors import BadInput
from record.models import ActorKind, Membership

Someone = AbstractBaseUser | AnonymousUser


def waiting_for(user: Someone) -> list[Gate]:
    """The gates that this person may answer now and has not answered yet, the longest waiting first; three queries."""
    if not user.is_authenticated or not user.is_active:
        return []
    roles: dict[int, set[str]] = {}
    kind: str = ActorKind.PERSON
    held = Membership.objects.filter(user_id=user.pk).values_list("lab_id", "role", "user__agent_account")
    for lab_id, role, agent in held:
        roles.setdefault(lab_id, set()).add(role)
        kind = ActorKind.AGENT if agent else ActorKind.PERSON
    answered = set(
        Ballot.objects.filter(voter_id=user.pk, replaced_at=None, gate__state="open").values_list("gate_id", flat=True)
    )
    waiting = Gate.objects.waiting().filter(lab__in=lab_ids(user, Ability.ANSWER)).select_related("lab", "delegated_to")
    return [
        gate for gate in waiting if gate.pk not in answered and _may(gate, user, kind, frozenset(roles[gate.lab_id]))
    ]


def what_waits(labs: object) -> GateQuerySet:
    """Open gates of these labs (keys, or a subquery of them), the longest waiting first."""
    return Gate.objects.waiting().filter(lab__in=labs).select_related("lab", "delegated_to", "requested_by")


def _may(gate: Gate, user: Someone, kind: str, roles: frozenset[str]) -> bool:
    facts = facts_about(gate, user, roles=roles, kind=kind)
    try:
        return find_protocol(gate) is not None and check(Policy.read(gate.policy), facts) is None
    except BadInput:  # a policy that was spoilt by hand: its own page says so
        return False
