"""What the policy needs to know of people."""

from gates.models import Gate
from gates.policy import Facts
from record.access import Ability, Actor, can, in_scope, kind_of, require_scope
from record.errors import NotAllowed
from record.models import ActorKind, Membership
from record.services import Author


def roles_in(user: Actor, lab_id: int) -> frozenset[str]:
    """The person's roles in the lab; none for inactive and anonymous people."""
    if not user.is_authenticated or not user.is_active:
        return frozenset()
    return frozenset(Membership.objects.filter(user_id=user.pk, lab_id=lab_id).values_list("role", flat=True))


def facts_about(gate: Gate, user: Actor, *, roles: frozenset[str], kind: str | None = None) -> Facts:
    """What the policy looks at in this person at this gate. `kind`: the account's, where it is known already."""
    return Facts(
        username=user.get_username(),
        roles=roles,
        kind=kind or kind_of(user),
        is_requester=gate.requested_by_id is not None and gate.requested_by_id == user.pk,
        is_delegate=gate.delegated_to_id is not None and gate.delegated_to_id == user.pk,
        escalated=gate.escalated_at is not None,
    )


def require_any(author: Author, lab_id: int, *abilities: Ability, what: str) -> None:
    """NotAllowed unless the author has one of the abilities in the lab. The policy itself may do everything."""
    if author.kind == ActorKind.POLICY:
        return
    if author.user is not None and not any(in_scope(author.user, ability) for ability in abilities):
        require_scope(author.user, abilities[0])
    if author.user is None or not any(can(author.user, ability, lab_id) for ability in abilities):
        wanted = " or ".join(ability.label for ability in abilities)
        raise NotAllowed(f"To {what} you need to be allowed to {wanted} in this lab. Ask an administrator.")
