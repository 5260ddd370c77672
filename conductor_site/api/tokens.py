"""Tokens of the API: making them, knowing them again, and what they allow."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import AnonymousUser, User
from django.db.models import Q, QuerySet
from django.utils import timezone
from knox.auth import TokenAuthentication
from rest_framework import exceptions
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from conductor_site.models import ApiToken
from record.access import SCOPES_WITH_READING, Actor, Scope, limit_to, scopes_of

DEFAULT_LIFE_H = 24 * 30
LONGEST_LIFE_H = 24 * 366
TOKENS_A_PERSON = 50
DEFAULT_SCOPES = (Scope.READ, Scope.OPERATE, Scope.DECIDE)
SEEN_EVERY_S = 60


class ApiTokenAuthentication(TokenAuthentication):
    """`Authorization: Token ...`; what is no token at all is refused like a wrong one.

    From here on the user can do no more than the token is for: record.access sees to it, whatever is called.
    """

    def authenticate_credentials(self, token: bytes) -> tuple[User, ApiToken]:
        if not token.isascii() or b"\0" in token:
            raise exceptions.AuthenticationFailed("Invalid token.")
        user, row = super().authenticate_credentials(token)
        limit_to(user, row.scopes)
        _note_use(row)
        return user, row


class TokenAllows(BasePermission):
    """Whether the token is for what the view does, before anything is looked up.

    A view says so by `scope` (a scope, or several of which any will do). Where it says nothing, reading needs a scope
    that includes reading; a command then meets record.access as every caller does.
    """

    def has_permission(self, request: Request, view: Any) -> bool:
        scopes = scopes_of(request.user)
        if scopes is None:
            return True
        wanted = self._wanted(request, view)
        self.message = f"This token is not for that: it needs the scope {' or '.join(wanted)}."
        return not scopes.isdisjoint(wanted)

    @staticmethod
    def _wanted(request: Request, view: Any) -> list[str]:
        said = getattr(view, "scope", None)
        wanted = {said} if isinstance(said, str) else set(said or ())
        if not wanted or Scope.READ in wanted or (request.method in SAFE_METHODS and wanted <= SCOPES_WITH_READING):
            wanted |= SCOPES_WITH_READING
        return [scope for scope in Scope if scope in wanted]


def own_tokens(user: Actor | AnonymousUser) -> QuerySet[ApiToken]:
    """An account's tokens, newest first."""
    return ApiToken.objects.filter(user_id=user.pk or 0)


def make_token(
    *,
    user: User,
    name: str,
    scopes: Iterable[str] = DEFAULT_SCOPES,
    life_h: int = DEFAULT_LIFE_H,
    made_by: User | None = None,
) -> Any:
    """A new token (row, secret); the secret can't be had again. Beyond fifty, an account's oldest are removed."""
    kept_scopes = [scope.value for scope in Scope if scope in set(scopes)]
    expiry = timedelta(hours=life_h)
    row, token = ApiToken.objects.create(user=user, expiry=expiry, name=name, scopes=kept_scopes, made_by=made_by)
    kept = own_tokens(user).values_list("pk", flat=True)[:TOKENS_A_PERSON]
    own_tokens(user).exclude(pk__in=list(kept)).delete()
    return row, token


def _note_use(row: ApiToken) -> None:
    """Write when the token was used, once a minute at most: a script that polls must not write each time."""
    now = timezone.now()
    stale = now - timedelta(seconds=SEEN_EVERY_S)
    if row.last_used_at is None or row.last_used_at <= stale:
        due = Q(last_used_at=None) | Q(last_used_at__lte=stale)
        ApiToken.objects.filter(due, pk=row.pk).update(last_used_at=now)
