"""Tokens of the API: making them, knowing them again, and what they allow."""

from datetime import timedelta
from typing import Any

from django.contrib.auth.models import AnonymousUser, User
from django.db.models import QuerySet
from knox.auth import TokenAuthentication
from rest_framework import exceptions
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from conductor_site.models import ApiToken, TokenScope

DEFAULT_LIFE_H = 24 * 30
LONGEST_LIFE_H = 24 * 366
TOKENS_A_PERSON = 50


class ApiTokenAuthentication(TokenAuthentication):
    """`Authorization: Token ...`; what is no token at all is refused like a wrong one."""

    def authenticate_credentials(self, token: bytes) -> tuple[User, ApiToken]:
        if not token.isascii() or b"\0" in token:
            raise exceptions.AuthenticationFailed("Invalid token.")
        return super().authenticate_credentials(token)


class TokenAllows(BasePermission):
    """A token made for reading only reads."""

    message = "This token is for reading only. Get one with the scope 'act'."

    def has_permission(self, request: Request, view: Any) -> bool:
        token = request.auth
        return request.method in SAFE_METHODS or not isinstance(token, ApiToken) or token.scope == TokenScope.ACT


def own_tokens(user: User | AnonymousUser) -> QuerySet[ApiToken]:
    """A person's tokens, newest first."""
    return ApiToken.objects.filter(user_id=user.pk or 0)


def make_token(*, user: User, name: str, scope: str = TokenScope.ACT, life_h: int = DEFAULT_LIFE_H) -> Any:
    """A new token (row, secret); the secret can't be had again. Beyond fifty tokens, a person's oldest are removed."""
    row, token = ApiToken.objects.create(user=user, expiry=timedelta(hours=life_h), name=name, scope=scope)
    kept = own_tokens(user).values_list("pk", flat=True)[:TOKENS_A_PERSON]
    own_tokens(user).exclude(pk__in=list(kept)).delete()
    return row, token
