"""Who belongs to a lab, and as what: the only writers of memberships. Every change is a decision in its record."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from uuid import UUID, uuid5

from django.contrib.auth.models import User
from django.db import transaction

from record.access import Ability, kind_of, require
from record.errors import BadInput, ConductorError, NotAllowed
from record.models import ActorKind, Decision, Door, Lab, Membership, Role
from record.services import Author, Ruling, Subject, record_decision, record_event

# Accounts have whole numbers for keys; the record speaks of things by UUIDs, which must be the same each time.
_ACCOUNTS = UUID("6f0c7a43-9a0e-4f0e-8d36-6b9a5f6f2f4e")
# The roles that a lab must not lose unnoticed: nobody could judge, or nobody could put it right.
GUARDED = (Role.REVIEWER, Role.ADMINISTRATOR)
AGENT_ROLES = frozenset({Role.VIEWER, Role.OPERATOR, Role.REVIEWER})


class LastOfRole(ConductorError):
    """The lab would lose its last reviewer or administrator; done only when that is confirmed, with a reason."""

    status = 409
    code = "last_of_role"


@dataclass(frozen=True)
class Member:
    """One account of a lab with all its roles, in the order of Role."""

    user: User
    roles: tuple[str, ...]
    kind: str

    @property
    def name(self) -> str:
        return self.user.get_full_name() or self.user.get_username()


def members_of(lab: Lab) -> list[Member]:
    """Everyone who has a role in the lab, by user name, people before agents; one query."""
    rows = Membership.objects.filter(lab=lab).select_related("user__agent_account").order_by("user__username")
    found: dict[int, tuple[User, set[str]]] = {}
    for row in rows:
        found.setdefault(row.user_id, (row.user, set()))[1].add(row.role)
    members = [Member(user, in_order(roles), kind_of(user)) for user, roles in found.values()]
    return sorted(members, key=lambda member: member.kind == ActorKind.AGENT)


def in_order(roles: Iterable[str]) -> tuple[str, ...]:
    """The roles, each once, in the order of Role."""
    given = set(roles)
    return tuple(role.value for role in Role if role in given)


def account_subject(user: User) -> Subject:
    """What decisions about an account speak of."""
    return Subject("account", uuid5(_ACCOUNTS, str(user.pk)), user.get_username())


def may_manage(author: Author, lab_id: int) -> None:
    """Raise NotAllowed unless the author may change who belongs to the lab.

    Administrators of the lab may; whoever keeps the installation may from the admin and the command line, since a new
    lab has nobody else; a directory that the installation was set up to follow may as a policy.
    """
    if author.kind == ActorKind.POLICY:
        return
    if author.user is None:
        raise NotAllowed("Only a person can change who belongs to a lab.")
    if author.door in (Door.ADMIN, Door.CLI) and author.user.is_active and author.user.is_superuser:
        return
    require(author.user, Ability.MANAGE, lab_id)


def set_roles(
    *, lab: Lab, user: User, roles: Collection[str], author: Author, reason: str = "", confirmed: bool = False
) -> Decision | None:
    """Give `user` exactly these roles in the lab; none: they are no member any more. None where nothing changes.

    Raises NotAllowed (see may_manage), BadInput for roles that this account can't have, and LastOfRole where nobody
    else would be left who is a reviewer, or an administrator, unless `confirmed` with a reason: that is an override.
    """
    with transaction.atomic():
        before = lock_roles(lab, user)
        may_manage(author, lab.pk)  # with the lock: whoever was just removed removes nobody
        _refuse_unknown(roles)
        after = in_order(roles)
        if before == after:
            return None
        _refuse_roles(lab, user, after)
        lost = [role for role in GUARDED if role in before and role not in after and is_last(lab, user, role)]
        if lost:
            _confirm_loss(lab, user, lost, reason, confirmed)
        return write_roles(lab, user, before, after, author, verdict="set_roles", reason=reason, override=bool(lost))


def add_role(*, lab: Lab, user: User, role: str, author: Author, reason: str, verdict: str) -> Decision | None:
    """Give `user` one role more, in the transaction of what entitles them to it (a claimed invitation, a new agent).

    It asks no policy: whoever calls it has. None where they have the role already.
    """
    before = lock_roles(lab, user)
    _refuse_unknown([role])
    after = in_order({*before, role})
    if before == after:
        return None
    _refuse_roles(lab, user, after)
    return write_roles(lab, user, before, after, author, verdict=verdict, reason=reason, override=False)


def lock_roles(lab: Lab, user: User) -> tuple[str, ...]:
    """The roles that `user` has in the lab; until the end of the transaction nobody else changes the lab's members."""
    Lab.objects.select_for_update(no_key=True).get(pk=lab.pk)
    return in_order(Membership.objects.filter(lab=lab, user=user).values_list("role", flat=True))


def is_last(lab: Lab, user: User, role: str) -> bool:
    """Whether no other person who can sign in has this role in the lab. Agents don't count: they judge for nobody."""
    others = Membership.objects.filter(lab=lab, role=role, user__is_active=True, user__agent_account=None)
    return not others.exclude(user=user).exists()


def write_roles(
    lab: Lab,
    user: User,
    before: tuple[str, ...],
    after: tuple[str, ...],
    author: Author,
    *,
    verdict: str,
    reason: str,
    override: bool,
) -> Decision:
    """Write memberships, the decision and the event; the lab is locked by lock_roles."""
    Membership.objects.filter(lab=lab, user=user).exclude(role__in=after).delete()
    Membership.objects.bulk_create(Membership(lab=lab, user=user, role=role) for role in after if role not in before)
    ruling = Ruling(
        verdict,
        reason=reason.strip(),
        config_before={"roles": list(before)},
        config_after={"roles": list(after)},
        override=override,
    )
    decision = record_decision(lab_id=lab.pk, subject=account_subject(user), author=author, ruling=ruling)
    record_event(
        lab_id=lab.pk,
        kind="member.change",
        subject=account_subject(user),
        message=f"{lab.name}: {user.get_username()} is now {_told(after)} (before: {_told(before)}), by {author.name}",
        data={"before": list(before), "after": list(after)},
        decision=decision,
    )
    return decision


def _refuse_unknown(roles: Collection[str]) -> None:
    if unknown := set(roles) - set(Role):
        raise BadInput(f"There is no role {', '.join(sorted(unknown))}. There are: {', '.join(Role)}.")


def _refuse_roles(lab: Lab, user: User, roles: Collection[str]) -> None:
    agent = getattr(user, "agent_account", None)
    if roles and not user.is_active:
        raise BadInput(f"The account {user.get_username()} is closed; it can't be a member.")
    if agent is None:
        return
    if agent.lab_id != lab.pk:
        raise BadInput(f"The agent {user.get_username()} belongs to another lab.")
    if unfit := set(roles) - AGENT_ROLES:
        raise BadInput(f"An agent can't be {' or '.join(sorted(unfit))}: that is for people.")


def _confirm_loss(lab: Lab, user: User, lost: list[Role], reason: str, confirmed: bool) -> None:
    named = " and ".join(lost)
    if not confirmed:
        raise LastOfRole(
            f"{user.get_username()} is the last {named} of {lab.name}. Give the role to somebody else first, "
            "or confirm that the lab is to have none.",
            extra={"roles": [role.value for role in lost]},
        )
    if not reason.strip():
        raise BadInput(f"Say why {lab.name} is to be left without {named}.")


def _told(roles: Collection[str]) -> str:
    return " and ".join(roles) or "no member"
