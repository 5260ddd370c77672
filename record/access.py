"""Who may do what: the one policy that pages, API, admin and command line ask.

A person belongs to a lab by memberships, each with a role; a person may hold several. Everything that people can see or
touch belongs to a lab. Someone outside it is told that the thing does not exist.
"""

from typing import TypeVar

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db.models import Model, QuerySet, TextChoices

from record.errors import NotAllowed
from record.models import Membership, Role

Actor = AbstractBaseUser | AnonymousUser
M = TypeVar("M", bound=Model)


class Ability(TextChoices):
    """What can be done in a lab."""

    VIEW = "view", "see the lab's runs, gates and decisions"
    OPERATE = "operate", "start, pause, retry and configure"
    DECIDE = "decide", "answer gates"
    OVERRIDE = "override", "overrule the state of things"


ABILITIES: dict[str, frozenset[str]] = {
    Role.VIEWER: frozenset({Ability.VIEW}),
    Role.OPERATOR: frozenset({Ability.VIEW, Ability.OPERATE}),
    Role.REVIEWER: frozenset({Ability.VIEW, Ability.DECIDE}),
    Role.ADMINISTRATOR: frozenset(Ability),
}


def roles_with(ability: str) -> list[str]:
    """The roles that carry an ability."""
    return [role for role, abilities in ABILITIES.items() if ability in abilities]


def lab_ids(user: Actor, ability: str = Ability.VIEW) -> QuerySet[Model, int]:
    """Keys of the labs in which `user` has `ability`, each once, as a subquery; none for inactive people."""
    if not user.is_authenticated or not user.is_active:
        return Membership.objects.none().values_list("lab_id", flat=True)
    members = Membership.objects.filter(user_id=user.pk, role__in=roles_with(ability))
    return members.order_by().values_list("lab_id", flat=True).distinct()


def can(user: Actor, ability: str, lab_id: int) -> bool:
    """Whether `user` has `ability` in the lab."""
    return lab_ids(user, ability).filter(lab_id=lab_id).exists()


def require(user: Actor, ability: str, lab_id: int) -> None:
    """Raise NotAllowed, naming the roles that would do, unless `user` has `ability` in the lab."""
    if not can(user, ability, lab_id):
        wanted = " or ".join(roles_with(ability))
        raise NotAllowed(f"To {Ability(ability).label} you need the role {wanted} in this lab. Ask an administrator.")


def visible(queryset: QuerySet[M], user: Actor, *, lab: str = "lab") -> QuerySet[M]:
    """Only the rows whose lab (found along the lookup path `lab`) the user may see."""
    return queryset.filter(**{f"{lab}__in": lab_ids(user)})
