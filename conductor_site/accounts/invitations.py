"""Invitations into a lab, and the first administrator's: who may make them, and what accepting one does."""

from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.utils.text import slugify

from conductor_site.accounts.links import (
    INVITATION_LIFE_H,
    LONGEST_LIFE_H,
    DeadLink,
    NewLink,
    claim_link,
    make_link,
    open_link,
    open_links,
    revoke_links,
)
from conductor_site.accounts.names import checked_username, shown_name
from conductor_site.accounts.passwords import checked_password
from conductor_site.models import LinkKind, OneTimeLink
from record.access import kind_of
from record.errors import BadInput, NotAllowed
from record.members import add_role, lock_roles, may_manage
from record.models import ActorKind, Door, Lab, Role
from record.services import Author, Ruling, Subject, record_decision, record_event

JOINING = (LinkKind.INVITATION, LinkKind.FIRST_ADMINISTRATOR)


def invite(*, lab: Lab, role: str, author: Author, note: str = "", life_h: int = INVITATION_LIFE_H) -> NewLink:
    """A link that makes whoever opens it a member of the lab in this role. Raises NotAllowed or BadInput."""
    may_manage(author, lab.pk)
    if role not in set(Role):
        raise BadInput(f"There is no role {role}. There are: {', '.join(Role)}.")
    if not 1 <= life_h <= LONGEST_LIFE_H:
        raise BadInput(f"An invitation is good for 1 to {LONGEST_LIFE_H} hours.")
    with transaction.atomic():
        made = make_link(
            kind=LinkKind.INVITATION, life_h=life_h, lab=lab, role=role, note=note.strip()[:120], made_by=author.user
        )
        _record(made.row, author, "invite", f"invited {made.row.note or 'somebody'} as {role}")
    return made


def revoke_invitation(*, link: OneTimeLink, author: Author) -> None:
    """Take an invitation back; DeadLink where there is nothing left to take back."""
    if link.lab is None:
        raise BadInput("That link is no invitation.")
    may_manage(author, link.lab.pk)
    with transaction.atomic():
        if not revoke_links(OneTimeLink.objects.filter(pk=link.pk)):
            link.refresh_from_db()
            raise DeadLink(f"The invitation can't be taken back: it is {link.state.value} already.")
        told = f"took back the invitation of {link.note or 'somebody'} as {link.role}"
        _record(link, author, "revoke_invitation", told)


def accept_with_new_account(
    *, secret: str, username: str, password: str, first_name: str = "", last_name: str = "", email: str = ""
) -> User:
    """Make the account that the invitation is for. Raises DeadLink, or BadInput for a name or password that won't do.

    The first administrator's account keeps the installation too.
    """
    link = _good_invitation(secret)
    name = checked_username(username)
    user = User(username=name, first_name=shown_name(first_name), last_name=shown_name(last_name), email=email.strip())
    if link.kind == LinkKind.FIRST_ADMINISTRATOR:
        user.is_staff = user.is_superuser = True
    checked_password(password, user)
    user.set_password(password)
    with transaction.atomic():
        try:
            with transaction.atomic():
                user.save()
        except IntegrityError as error:
            raise BadInput(f"The user name {name} is taken. Choose another, or sign in with it.") from error
        _join(link, user)
    return user


def accept_with_account(*, secret: str, user: User) -> Lab:
    """Join with an account that there is. Raises DeadLink; BadInput where the account has the role already."""
    link = _good_invitation(secret)
    if kind_of(user) == ActorKind.AGENT:
        raise NotAllowed("An agent can't accept an invitation.")
    with transaction.atomic():
        if link.kind == LinkKind.FIRST_ADMINISTRATOR:
            User.objects.filter(pk=user.pk).update(is_staff=True, is_superuser=True)
        return _join(link, user)


def make_first_administrator(*, lab_name: str) -> NewLink:
    """A link for the first administrator of this installation and of the lab, which is made where there is none such.

    Earlier ones are taken back. Raises NotAllowed where somebody keeps the installation already.
    """
    keepers = User.objects.filter(is_superuser=True, is_active=True)
    with transaction.atomic():
        if keeper := keepers.first():
            raise NotAllowed(
                f"{keeper.get_username()} keeps this installation already. Where they can't sign in any more, make "
                f"them a link for a new password: manage.py password_link {keeper.get_username()}"
            )
        lab = _lab_called(lab_name)
        revoke_links(OneTimeLink.objects.filter(kind=LinkKind.FIRST_ADMINISTRATOR))
        made = make_link(
            kind=LinkKind.FIRST_ADMINISTRATOR, life_h=INVITATION_LIFE_H, lab=lab, role=Role.ADMINISTRATOR, note="first"
        )
    return made


def open_invitations(lab: Lab) -> list[OneTimeLink]:
    """The invitations into the lab that can still be accepted, newest first."""
    return list(open_links().filter(lab=lab, kind__in=JOINING).select_related("made_by"))


def _good_invitation(secret: str) -> OneTimeLink:
    """The open invitation, as long as whoever made it still may invite."""
    link = open_link(secret, *JOINING)
    _check_maker(link)
    return link


def _check_maker(link: OneTimeLink) -> None:
    """DeadLink unless whoever made the invitation still may invite."""
    if link.made_by is not None and link.lab is not None:
        door = Door.ADMIN if link.made_by.is_superuser else Door.WEB
        try:
            may_manage(Author.person(link.made_by, door), link.lab.pk)
        except NotAllowed as refusal:
            raise DeadLink(
                f"Whoever made this invitation manages {link.lab.name} no longer. Ask an administrator for another."
            ) from refusal


def _join(link: OneTimeLink, user: User) -> Lab:
    assert link.lab is not None  # noqa: S101 - the table's constraint
    lock_roles(link.lab, user)
    _check_maker(OneTimeLink.objects.select_related("lab", "made_by").get(pk=link.pk))  # from now on it holds
    claim_link(link, used_by=user)
    by = link.made_by.get_username() if link.made_by else "the command line"
    author = Author.person(user, Door.WEB)
    joined = add_role(lab=link.lab, user=user, role=link.role, author=author, reason=f"invited by {by}", verdict="join")
    if joined is None:
        raise BadInput(f"You are {link.role} of {link.lab.name} already; the invitation is still good for another.")
    return link.lab


def _lab_called(name: str) -> Lab:
    slug = slugify(name)[:60]
    if not slug:
        raise BadInput("Give the lab a name with letters in it.")
    return Lab.objects.filter(slug=slug).first() or _new_lab(name.strip()[:120], slug)


def _new_lab(name: str, slug: str) -> Lab:
    lab = Lab(name=name, slug=slug)
    try:
        lab.full_clean()
    except ValidationError as error:
        raise BadInput(f"There can't be a lab {name} ({slug}): {' '.join(error.messages)}") from error
    lab.save()
    return lab


def _record(link: OneTimeLink, author: Author, verdict: str, told: str) -> None:
    """A decision and an event about an invitation."""
    assert link.lab is not None  # noqa: S101 - the table's constraint
    subject = Subject("invitation", link.uuid, f"invitation as {link.role}")
    ruling = Ruling(verdict, answers={"role": link.role, "note": link.note, "until": link.expires_at.isoformat()})
    decision = record_decision(lab_id=link.lab.pk, subject=subject, author=author, ruling=ruling)
    record_event(
        lab_id=link.lab.pk,
        kind="member.invite",
        subject=subject,
        message=f"{link.lab.name}: {author.name} {told}",
        decision=decision,
    )
