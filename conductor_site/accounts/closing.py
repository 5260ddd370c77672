"""Closing an account: its sessions and tokens end at once; what it did stays in the record."""

from django.contrib.auth.models import User
from django.db import transaction

from conductor_site.accounts.links import revoke_links
from conductor_site.models import ApiToken, OneTimeLink
from record.access import kind_of
from record.errors import BadInput, NotAllowed, StaleState
from record.members import GUARDED, LastOfRole, account_subject, is_last, lock_roles, may_manage
from record.models import ActorKind, Door, Lab
from record.services import Author, Ruling, record_decision, record_event


def close_account(*, user: User, author: Author, reason: str, confirmed: bool = False) -> None:
    """Let the account in no more, by any door. Its roles stay, and mean nothing until it is opened again.

    The keeper of the installation closes any account, a lab's administrator its agents. Raises NotAllowed, BadInput
    without a reason, and LastOfRole where a lab would have no reviewer or administrator left, unless `confirmed`.
    """
    _may_close(user, author)
    if not reason.strip():
        raise BadInput("Say why the account is closed.")
    with transaction.atomic():
        labs = _labs_of(user)
        lost = {lab: _lost_by(lab, user) for lab in labs}
        if not confirmed and any(lost.values()):
            told = "; ".join(f"{lab.name} would have no {' and no '.join(each)}" for lab, each in lost.items() if each)
            raise LastOfRole(f"{user.get_username()} can't be closed just like that: {told}. Confirm that it is meant.")
        if not User.objects.filter(pk=user.pk, is_active=True).update(is_active=False, password=_no_password()):
            raise StaleState(f"The account {user.get_username()} is closed already.")
        ApiToken.objects.filter(user=user).delete()
        revoke_links(OneTimeLink.objects.filter(user=user) | OneTimeLink.objects.filter(made_by=user))
        for lab in labs:
            _record(lab, user, author, "close_account", "account.close", reason, override=bool(lost[lab]))
    user.refresh_from_db()


def open_account(*, user: User, author: Author, reason: str) -> None:
    """Let the account in again, with the roles that it had. A person sets a new password by a link; tokens are new."""
    _may_close(user, author)
    if not reason.strip():
        raise BadInput("Say why the account is opened again.")
    with transaction.atomic():
        if not User.objects.filter(pk=user.pk, is_active=False).update(is_active=True):
            raise StaleState(f"The account {user.get_username()} is open.")
        for lab in _labs_of(user):
            _record(lab, user, author, "open_account", "account.open", reason, override=False)
    user.refresh_from_db()


def _may_close(user: User, author: Author) -> None:
    if author.kind == ActorKind.POLICY:
        return
    if author.user is not None and author.user.pk == user.pk:
        raise NotAllowed("You can't close your own account. Ask another keeper of this installation.")
    if author.user is not None and author.user.is_active and author.user.is_superuser and author.door == Door.ADMIN:
        return
    if kind_of(user) != ActorKind.AGENT:
        raise NotAllowed("Only whoever keeps this installation closes and opens accounts of people, in the admin.")
    may_manage(author, user.agent_account.lab_id)


def _labs_of(user: User) -> list[Lab]:
    """The labs to which the account belongs, in the order in which they are locked."""
    return list(Lab.objects.filter(memberships__user=user).distinct().order_by("pk"))


def _lost_by(lab: Lab, user: User) -> list[str]:
    """The guarded roles that nobody else has; the lab's members are locked from here on."""
    roles = lock_roles(lab, user)
    if kind_of(user) == ActorKind.AGENT:
        return []
    return [role.value for role in GUARDED if role in roles and is_last(lab, user, role)]


def _no_password() -> str:
    """What no password matches. It differs each time, which ends the account's sessions."""
    nobody = User()
    nobody.set_unusable_password()
    return nobody.password


def _record(lab: Lab, user: User, author: Author, verdict: str, kind: str, reason: str, *, override: bool) -> None:
    ruling = Ruling(verdict, reason=reason, override=override)
    decision = record_decision(lab_id=lab.pk, subject=account_subject(user), author=author, ruling=ruling)
    done = "closed" if verdict == "close_account" else "opened again"
    record_event(
        lab_id=lab.pk,
        kind=kind,
        subject=account_subject(user),
        message=f"{lab.name}: the account {user.get_username()} was {done} by {author.name}: {reason}",
        decision=decision,
    )
