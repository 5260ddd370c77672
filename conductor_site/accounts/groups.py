"""Which groups of the organisation give which roles in which labs, and keeping members to that."""

import logging
from collections.abc import Iterable

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction

from conductor_site.env import Organisation
from record.errors import NotAllowed
from record.members import LastOfRole, account_subject, set_roles
from record.models import Lab, Membership
from record.services import Author, record_event

log = logging.getLogger(__name__)
DIRECTORY = "groups of the organisation"


def provider() -> Organisation:
    """The organisation's provider. Raises NotAllowed where none is set up."""
    if settings.OIDC is None:
        raise NotAllowed("This installation has no provider to sign in through.")
    return settings.OIDC


def roles_of(groups: Iterable[str]) -> dict[str, set[str]]:
    """Slug of a lab -> the roles that these groups give in it."""
    given: dict[str, set[str]] = {}
    for group in groups:
        for slug, role in provider().roles.get(group, ()):
            given.setdefault(slug, set()).add(role)
    return given


def follow_groups(user: User, groups: Iterable[str]) -> None:
    """Give and take the roles that the configuration ties to groups; roles that it ties to none stay as they are.

    The last reviewer or administrator of a lab stays one, and an event says so: a change elsewhere must not leave a lab
    without anybody unnoticed.
    """
    given = roles_of(groups)
    governed: dict[str, set[str]] = {}
    for pairs in provider().roles.values():
        for slug, role in pairs:
            governed.setdefault(slug, set()).add(role)
    labs = {lab.slug: lab for lab in Lab.objects.filter(slug__in=governed)}
    for slug in sorted(governed):
        if slug not in labs:
            log.error("CONDUCTOR_OIDC_ROLES names the lab %s, which there is not", slug)
            continue
        _follow(labs[slug], user, governed[slug], given.get(slug, set()))


def _follow(lab: Lab, user: User, governed: set[str], given: set[str]) -> None:
    held = set(Membership.objects.filter(lab=lab, user=user).values_list("role", flat=True))
    author = Author.policy(DIRECTORY)
    reason = f"{user.get_username()} signed in, and is in the groups for {' and '.join(sorted(given)) or 'no role'}"
    try:
        set_roles(lab=lab, user=user, roles=(held - governed) | given, author=author, reason=reason)
    except LastOfRole as refusal:
        set_roles(lab=lab, user=user, roles=held | given, author=author, reason=reason)
        with transaction.atomic():
            record_event(
                lab_id=lab.pk,
                kind="member.kept",
                subject=account_subject(user),
                message=f"{lab.name}: no group gives {user.get_username()} their roles any more. {refusal.message}",
            )
