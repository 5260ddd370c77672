"""Signing in through the lab's OpenID Connect provider: mozilla-django-oidc, with the checks that it leaves to others.

The library does the code flow with state, nonce and PKCE, and verifies signatures. What it leaves out is done here:
endpoints are discovered from the issuer, the token must be from that issuer and for us, the userinfo must be of the
same subject, accounts are known by issuer and subject (never by e-mail, which changes hands), a closed account's
session ends, and every failure is told in words.
"""

import time
from typing import Any

import jwt
import requests
from django.contrib import messages
from django.contrib.auth.models import User
from django.core.exceptions import SuspiciousOperation
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from mozilla_django_oidc.auth import OIDCAuthenticationBackend
from mozilla_django_oidc.utils import import_from_settings
from mozilla_django_oidc.views import OIDCAuthenticationCallbackView, OIDCAuthenticationRequestView

from conductor_site.accounts.groups import follow_groups, provider, roles_of
from conductor_site.accounts.names import free_username, shown_name
from conductor_site.env import is_private
from conductor_site.models import ExternalIdentity
from record.errors import AdapterError, ConductorError, NotAllowed

TIMEOUT_S = 10
DISCOVERED_FOR_S = 3600
ENDPOINTS = {
    "OIDC_OP_AUTHORIZATION_ENDPOINT": "authorization_endpoint",
    "OIDC_OP_TOKEN_ENDPOINT": "token_endpoint",
    "OIDC_OP_USER_ENDPOINT": "userinfo_endpoint",
    "OIDC_OP_JWKS_ENDPOINT": "jwks_uri",
}
_discovered: dict[str, tuple[float, dict[str, Any]]] = {}


def discover(issuer: str) -> dict[str, Any]:
    """What the provider says of itself, kept for an hour. Raises AdapterError, in words, where it can't be used."""
    kept = _discovered.get(issuer)
    if kept and time.monotonic() - kept[0] < DISCOVERED_FOR_S:
        return kept[1]
    try:
        answer = requests.get(f"{issuer.rstrip('/')}/.well-known/openid-configuration", timeout=TIMEOUT_S)
        answer.raise_for_status()
        said = answer.json()
    except (requests.RequestException, ValueError) as error:
        raise _unreachable(error) from error
    if not isinstance(said, dict) or said.get("issuer") != issuer:
        raise AdapterError(
            f"The provider at {issuer} calls itself {said.get('issuer') if isinstance(said, dict) else said!r}; "
            "CONDUCTOR_OIDC_ISSUER must be spelt exactly so.",
            transient=False,
        )
    if missing := [name for name in ENDPOINTS.values() if not is_private(str(said.get(name, "")))]:
        raise AdapterError(
            f"The provider at {issuer} gives no https address for {', '.join(missing)}.", transient=False
        )
    _discovered[issuer] = (time.monotonic(), said)
    return said


class _Configured:
    """Where the library's settings come from: what the provider says, and our own few settings."""

    @staticmethod
    def get_settings(attr: str, *args: Any) -> Any:
        if attr in ENDPOINTS:
            return discover(provider().issuer)[ENDPOINTS[attr]]
        ours = {
            "OIDC_RP_CLIENT_ID": provider().client_id,
            "OIDC_RP_CLIENT_SECRET": provider().client_secret,
            "OIDC_RP_SIGN_ALGO": provider().algorithm,
            "OIDC_RP_SCOPES": provider().scopes,
            "OIDC_AUTHENTICATION_CALLBACK_URL": "oidc-callback",
            "OIDC_USE_PKCE": True,
            "OIDC_TIMEOUT": TIMEOUT_S,
        }
        return ours[attr] if attr in ours else import_from_settings(attr, *args)


class OrganisationBackend(_Configured, OIDCAuthenticationBackend):
    """Accounts of people whom the provider knows."""

    def __init__(self) -> None:
        """Nothing yet: asking the provider for its endpoints waits until somebody comes from it."""

    def authenticate(self, request: HttpRequest | None, **kwargs: Any) -> User | None:
        """The account of who comes back from the provider. Raises NotAllowed or AdapterError, in words."""
        if request is None or "nonce" not in kwargs:
            return None  # a name and a password, which are another backend's
        super().__init__()
        try:
            return super().authenticate(request, **kwargs)
        except (jwt.InvalidTokenError, SuspiciousOperation, KeyError) as error:
            raise _untrusted(str(error)) from error
        except requests.RequestException as error:
            raise _unreachable(error) from error

    def get_user(self, user_id: Any) -> User | None:
        """Whose session it is; nobody's, once the account is closed (the library looks for the row alone)."""
        return User.objects.filter(pk=user_id, is_active=True).first()

    def verify_token(self, token: str, **kwargs: Any) -> dict[str, Any]:
        """The token's claims, signed by the provider that we trust, for us, and for this sign-in."""
        claims: dict[str, Any] = super().verify_token(token, **kwargs)
        audience = claims.get("aud")
        audiences = audience if isinstance(audience, list) else [audience]
        if claims.get("iss") != provider().issuer:
            raise SuspiciousOperation("the token is of another issuer")
        if provider().client_id not in audiences or claims.get("azp", provider().client_id) != provider().client_id:
            raise SuspiciousOperation("the token is for another application")
        if not claims.get("sub") or "exp" not in claims:
            raise SuspiciousOperation("the token names nobody, or never expires")
        return claims

    def get_userinfo(self, access_token: str, id_token: str, payload: dict[str, Any]) -> dict[str, Any]:
        """All claims about the person; those of the signed token go before those of the userinfo."""
        told = super().get_userinfo(access_token, id_token, payload)
        if told.get("sub") != payload["sub"]:
            raise _untrusted("the userinfo is about somebody else")
        return {**told, **payload}

    def verify_claims(self, claims: dict[str, Any]) -> bool:
        """Raise NotAllowed for somebody new who is in none of the groups that give a role here."""
        if not self.filter_users_by_claims(claims) and not roles_of(_groups(claims)):
            raise NotAllowed(
                "You are known to your organisation, but in no group that has a role here. Ask an administrator of "
                "your lab which group that is, or for an invitation."
            )
        return True

    def filter_users_by_claims(self, claims: dict[str, Any]) -> list[User]:
        known = ExternalIdentity.objects.filter(issuer=provider().issuer, subject=claims["sub"])
        return [identity.user for identity in known.select_related("user")]

    def create_user(self, claims: dict[str, Any]) -> User:
        with transaction.atomic():
            user = User(username=free_username(str(claims.get("preferred_username") or claims["sub"])))
            user.set_unusable_password()
            user.save()
            ExternalIdentity.objects.create(issuer=provider().issuer, subject=claims["sub"], user=user)
        return self.update_user(user, claims)

    def update_user(self, user: User, claims: dict[str, Any]) -> User:
        """Take over the names that the provider tells, and the roles that its groups give."""
        if not user.is_active:
            raise NotAllowed("Your account here is closed. Ask whoever keeps this installation.")
        user.first_name = shown_name(str(claims.get("given_name", user.first_name)))
        user.last_name = shown_name(str(claims.get("family_name", user.last_name)))
        user.email = str(claims.get("email", user.email))[:254]
        user.save(update_fields=["first_name", "last_name", "email"])
        ExternalIdentity.objects.filter(issuer=provider().issuer, user=user).update(seen_at=timezone.now())
        follow_groups(user, _groups(claims))
        return user


class Begin(_Configured, OIDCAuthenticationRequestView):
    """Sends the browser to the provider."""


class Return(_Configured, OIDCAuthenticationCallbackView):
    """Takes the browser back from the provider."""

    def get(self, request: HttpRequest) -> HttpResponse:
        if request.GET.get("error"):  # anybody can send somebody here: sign nobody out for it
            return self.login_failure()
        try:
            return super().get(request)
        except ConductorError as refusal:
            messages.error(request, refusal.message)
            return redirect("login")

    def login_failure(self) -> HttpResponse:
        messages.error(self.request, "Your organisation did not sign you in. Try again, or ask it why.")
        return redirect("home" if self.request.user.is_authenticated else "login")

    @property
    def success_url(self) -> str:
        return self.request.session.get("oidc_login_next") or reverse("home")


def _groups(claims: dict[str, Any]) -> list[str]:
    """The groups that the provider says the person is in; a claim may hold one or several."""
    said = claims.get(provider().groups_claim, [])
    return [str(each) for each in (said if isinstance(said, list) else [said])]


def _untrusted(why: str) -> NotAllowed:
    return NotAllowed(f"What the provider sent can't be trusted ({why}), so nobody was signed in.")


def _unreachable(error: Exception) -> AdapterError:
    return AdapterError(
        f"The provider {provider().issuer} does not answer as it should ({type(error).__name__}), so nobody was "
        "signed in. Try again in a minute; who has a password here can use it meanwhile.",
        transient=True,
    )
