"""One-time links: made, shown once, kept as a hash, claimed by one."""

import hashlib
import secrets
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone

from conductor_site.models import LinkKind, LinkState, OneTimeLink
from record.errors import ConductorError

SECRET_BYTES = 32
INVITATION_LIFE_H = 7 * 24
PASSWORD_LIFE_H = 24
LONGEST_LIFE_H = 30 * 24


class DeadLink(ConductorError):
    """The link was used, taken back, has expired, or never was one."""

    status = 410
    code = "dead_link"


@dataclass(frozen=True)
class NewLink:
    """A link and its secret, which can't be had again."""

    row: OneTimeLink
    secret: str


DEAD = {
    LinkState.USED: "This link has been used. It works once only; if it was not you, tell an administrator now.",
    LinkState.REVOKED: "This link has been taken back. Ask whoever gave it to you for another.",
    LinkState.EXPIRED: "This link has expired. Ask whoever gave it to you for another.",
}


def make_link(*, kind: LinkKind, life_h: int, **fields: Any) -> NewLink:
    """A new link that works once within `life_h` hours. `fields` say for what (see OneTimeLink)."""
    secret = secrets.token_urlsafe(SECRET_BYTES)
    expires_at = timezone.now() + timedelta(hours=life_h)
    row = OneTimeLink.objects.create(kind=kind, digest=digest_of(secret), expires_at=expires_at, **fields)
    return NewLink(row, secret)


def open_link(secret: str, *kinds: LinkKind) -> OneTimeLink:
    """The link with this secret; looking uses nothing up, since mail scanners open what they find. Raises DeadLink."""
    rows = OneTimeLink.objects.select_related("lab", "user", "made_by")
    found = rows.filter(digest=digest_of(secret), kind__in=kinds).first()
    if found is None:
        raise DeadLink("There is no such link. Copy it whole, or ask whoever gave it to you for another.")
    if found.state != LinkState.OPEN:
        raise DeadLink(DEAD[found.state])
    return found


def claim_link(link: OneTimeLink, **used: Any) -> None:
    """Use the link up, in the transaction of what it is used for. Of two at once one wins; the other gets DeadLink."""
    if not open_links().filter(pk=link.pk).update(used_at=timezone.now(), **used):
        link.refresh_from_db()
        raise DeadLink(DEAD[link.state if link.state != LinkState.OPEN else LinkState.USED])


def revoke_links(links: QuerySet[OneTimeLink]) -> int:
    """Take back those that are still open; how many."""
    return links.filter(pk__in=open_links().values("pk")).update(revoked_at=timezone.now())


def open_links() -> QuerySet[OneTimeLink]:
    """The links that can still be used."""
    return OneTimeLink.objects.filter(used_at=None, revoked_at=None, expires_at__gt=timezone.now())


def digest_of(secret: str) -> str:
    """What is kept of a secret. It has 256 random bits, so a plain hash can't be turned back."""
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()
