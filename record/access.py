"""Who may do what: the one policy that pages, API, admin and command line ask.

A person belongs to a lab by memberships, each with a role; a person may hold several. Everything that people can see or
touch belongs to a lab. Someone outside it is told that the thing does not exist.

Whoever comes by a token may do no more than the token is for: its scopes narrow what the roles give, here and for
every door. An agent never may what is for people alone, whatever its roles are.
"""

from collections.abc import Iterable
from typing import TypeVar

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db.models import Model, QuerySet, TextChoices

from record.errors import NotAllowed
from record.models import ActorKind, Membership, Role

Actor = AbstractBaseUser | AnonymousUser
M = TypeVar("M", bound=Model)


class Ability(TextChoices):
    """What can be done in a lab."""

    VIEW = "view", "see the lab's runs, gates and decisions"
    OPERATE = "operate", "start, pause, retry and configure"
    ANSWER = "answer", "give an answer at gates that let you"
    DECIDE = "decide", "answer gates"
    OVERRIDE = "override", "overrule the state of things"
    MANAGE = "manage", "manage the lab's members and agents"


ABILITIES: dict[str, frozenset[str]] = {
    Role.VIEWER: frozenset({Ability.VIEW}),
    Role.OPERATOR: frozenset({Ability.VIEW, Ability.OPERATE}),
    Role.REVIEWER: frozenset({Ability.VIEW, Ability.ANSWER, Ability.DECIDE}),
    Role.ADMINISTRATOR: frozenset(Ability),
}

# What no agent may: it answers only where a gate's policy lets agents, and decides, overrules and manages nothing else.
PEOPLE_ONLY = frozenset({Ability.DECIDE, Ability.OVERRIDE, Ability.MANAGE})


class Scope(TextChoices):
    """What a token may be used for; never more than its owner may do."""

    READ = "read", "read"
    OPERATE = "operate", "start, pause, retry and configure"
    DECIDE = "decide", "answer gates"
    WALK = "walk", "take plans of a walk and report on them"
    HEARTBEAT = "heartbeat", "say that a worker is alive"


# Nobody can act on what they can't see, so acting includes reading; a heartbeat alone shows nothing.
# Managing members and tokens is for people who have signed in: no token can widen what it may.
SCOPE_ABILITIES: dict[str, frozenset[str]] = {
    Scope.READ: frozenset({Ability.VIEW}),
    Scope.OPERATE: frozenset({Ability.VIEW, Ability.OPERATE}),
    Scope.DECIDE: frozenset({Ability.VIEW, Ability.ANSWER, Ability.DECIDE, Ability.OVERRIDE}),
    Scope.WALK: frozenset({Ability.VIEW}),
    Scope.HEARTBEAT: frozenset(),
}
SCOPES_WITH_READING = frozenset(scope for scope, abilities in SCOPE_ABILITIES.items() if Ability.VIEW in abilities)

_LIMIT = "_token_scopes"


def limit_to(user: AbstractBaseUser, scopes: Iterable[str]) -> None:
    """Let `user`, as it is known in this request, do no more than `scopes` are for."""
    setattr(user, _LIMIT, frozenset(scopes))


def scopes_of(user: Actor) -> frozenset[str] | None:
    """The scopes of the token by which `user` came; None for whoever signed in and is not limited."""
    return getattr(user, _LIMIT, None)


def kind_of(user: Actor) -> str:
    """Whether the account is a person's or an agent's."""
    return ActorKind.AGENT if getattr(user, "agent_account", None) is not None else ActorKind.PERSON


def roles_with(ability: str) -> list[str]:
    """The roles that carry an ability."""
    return [role for role, abilities in ABILITIES.items() if ability in abilities]


def scopes_with(ability: str) -> list[str]:
    """The scopes of a token that carry an ability."""
    return [scope for scope, abilities in SCOPE_ABILITIES.items() if ability in abilities]


def in_scope(user: Actor, ability: str) -> bool:
    """Whether the token by which `user` came (if any) is for this."""
    scopes = scopes_of(user)
    return scopes is None or not scopes.isdisjoint(scopes_with(ability))


def lab_ids(user: Actor, ability: str = Ability.VIEW, *, to_see: bool = False) -> QuerySet[Model, int]:
    """Keys of the labs in which `user` has `ability`, each once, as a subquery; none for inactive people.

    `to_see`: what is shown to those who have it, and no more; a token that only reads will do.
    """
    if not user.is_authenticated or not user.is_active or not in_scope(user, Ability.VIEW if to_see else ability):
        return Membership.objects.none().values_list("lab_id", flat=True)
    members = Membership.objects.filter(user_id=user.pk, role__in=roles_with(ability))
    if ability in PEOPLE_ONLY:
        members = members.filter(user__agent_account=None)
    return members.order_by().values_list("lab_id", flat=True).distinct()


def can(user: Actor, ability: str, lab_id: int) -> bool:
    """Whether `user` has `ability` in the lab."""
    return lab_ids(user, ability).filter(lab_id=lab_id).exists()


def require(user: Actor, ability: str, lab_id: int) -> None:
    """Raise NotAllowed, naming the roles or scopes that would do, unless `user` has `ability` in the lab."""
    require_scope(user, ability)
    if can(user, ability, lab_id):
        return
    if ability in PEOPLE_ONLY and kind_of(user) == ActorKind.AGENT:
        raise NotAllowed(f"To {Ability(ability).label} is for people: an agent can't.")
    wanted = " or ".join(roles_with(ability))
    raise NotAllowed(f"To {Ability(ability).label} you need the role {wanted} in this lab. Ask an administrator.")


def require_scope(user: Actor, ability: str) -> None:
    """Raise NotAllowed, naming the scopes that would do, unless the token by which `user` came (if any) is for this."""
    if in_scope(user, ability):
        return
    wanted = " or ".join(scopes_with(ability))
    if not wanted:
        raise NotAllowed(f"To {Ability(ability).label} is for people who have signed in: no token is for that.")
    raise NotAllowed(f"This token is not made to {Ability(ability).label}: that needs one with the scope {wanted}.")


def visible(queryset: QuerySet[M], user: Actor, *, lab: str = "lab") -> QuerySet[M]:
    """Only the rows whose lab (found along the lookup path `lab`) the user may see."""
    return queryset.filter(**{f"{lab}__in": lab_ids(user)})
