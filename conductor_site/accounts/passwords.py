"""Passwords: changed by their owner, or set anew by a one-time link."""

from collections.abc import Collection

from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import Q

from conductor_site.accounts.links import PASSWORD_LIFE_H, NewLink, claim_link, make_link, open_link, revoke_links
from conductor_site.models import ApiToken, LinkKind, OneTimeLink
from record.access import Ability, can, kind_of
from record.errors import BadInput, NotAllowed
from record.members import account_subject
from record.models import ActorKind, Decision, Door, Membership
from record.services import Author, record_event


def make_password_link(*, user: User, author: Author, replacing: bool = True) -> NewLink:
    """A link by which `user` sets a new password. Earlier ones are taken back, unless it is not `replacing` them.

    The keeper of the installation may make one for everybody; a lab's administrator for those who came by an invitation
    and have only ever belonged to labs that they administer, since whoever holds the link holds the account. Raises
    NotAllowed or BadInput.
    """
    _may_make(user, author)
    if kind_of(user) == ActorKind.AGENT:
        raise BadInput(f"{user.get_username()} is an agent: it has no password, only tokens.")
    if not user.is_active:
        raise BadInput(f"The account {user.get_username()} is closed. Open it again first.")
    with transaction.atomic():
        if replacing:
            revoke_links(OneTimeLink.objects.filter(kind=LinkKind.PASSWORD, user=user))
        made = make_link(kind=LinkKind.PASSWORD, life_h=PASSWORD_LIFE_H, user=user, made_by=author.user)
        _tell_labs(user, f"{author.name} made a link by which {user.get_username()} sets a new password")
    return made


def may_make_password_link(user: User, author: Author) -> bool:
    """Whether make_password_link would not refuse the author."""
    try:
        _may_make(user, author)
    except NotAllowed:
        return False
    return True


def set_password_by_link(*, secret: str, password: str) -> User:
    """Set a new password, once. All sessions and tokens of the account end. Raises DeadLink or BadInput."""
    link = open_link(secret, LinkKind.PASSWORD)
    user = link.user
    assert user is not None  # noqa: S101 - the table's constraint
    if not user.is_active:
        raise NotAllowed("This account is closed.")
    checked_password(password, user)
    with transaction.atomic():
        claim_link(link, used_by=user)
        revoke_links(OneTimeLink.objects.filter(kind=LinkKind.PASSWORD, user=user))
        user.set_password(password)  # sessions carry a digest of the old one, and end
        user.save(update_fields=["password"])
        ApiToken.objects.filter(user=user).delete()
        _tell_labs(user, f"{user.get_username()} set a new password by a link; their tokens have ended")
    return user


def change_password(*, user: User, password: str) -> None:
    """A new password for somebody whose old one was checked. Their other sessions end; tokens stay. Raises BadInput."""
    checked_password(password, user)
    user.set_password(password)
    with transaction.atomic():
        user.save(update_fields=["password"])
        revoke_links(OneTimeLink.objects.filter(kind=LinkKind.PASSWORD, user=user))


def checked_password(password: str, user: User) -> None:
    """Raise BadInput, with all that is wrong, for a password that is too easily guessed."""
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise BadInput(" ".join(error.messages), extra={"fields": {"password": error.messages}}) from error


def _may_make(user: User, author: Author) -> None:
    keeper = author.user is not None and author.user.is_active and author.user.is_superuser
    if author.kind == ActorKind.POLICY or (keeper and author.door == Door.ADMIN):
        return
    labs = set(Membership.objects.filter(user=user).values_list("lab_id", flat=True))
    mine = author.user is not None and labs and all(can(author.user, Ability.MANAGE, lab) for lab in labs)
    if user.is_superuser or user.is_staff or not mine or _is_known_elsewhere(user, labs):
        raise NotAllowed(
            f"{user.get_username()} belongs, or once belonged, to more than your lab: only whoever keeps this "
            "installation can make them a link for a new password, in the admin."
        )


def _is_known_elsewhere(user: User, labs: Collection[int]) -> bool:
    """Whether the record of another lab speaks of the account or by it, or it was there before a lab took it in.

    Else an administrator could add an account that is in no lab just now, by its name, and then take it over.
    """
    of_it = Q(subject_kind="account", subject_uuid=account_subject(user).uuid)
    was_there = of_it & Q(verdict="set_roles", config_before={"roles": []})
    elsewhere = (of_it | Q(actor=user)) & ~Q(lab__in=labs)
    return Decision.objects.filter(elsewhere | was_there).exists()


def _tell_labs(user: User, message: str) -> None:
    labs = Membership.objects.filter(user=user).values_list("lab_id", flat=True).distinct().order_by("lab_id")
    for lab_id in labs:
        record_event(lab_id=lab_id, kind="account.password", subject=account_subject(user), message=message)
