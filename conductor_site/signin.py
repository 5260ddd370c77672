"""Checking a name and a password, with a door that closes for a while after too many wrong ones."""

import ipaddress
from datetime import timedelta

from django.conf import settings
from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q
from django.http import HttpRequest
from django.utils import timezone

from conductor_site.models import SignInFailure
from record.errors import ConductorError

WINDOW_S = 15 * 60
FAILURES_A_NAME = 10  # from one address, so that a stranger elsewhere can't lock a person out
FAILURES_AN_ADDRESS = 50


class TooManyAttempts(ConductorError):
    """The door is closed for a while."""

    status = 429
    code = "too_many_attempts"


class WrongPassword(ConductorError):
    """The name, the password, or both are wrong, or the account has been closed; which, is not told."""

    status = 403
    code = "wrong_password"


def sign_in(*, request: HttpRequest, username: str, password: str) -> User:
    """The person with this name and password.

    Raises WrongPassword, or TooManyAttempts (`extra["wait_s"]`: seconds) after 10 failures for one name from one
    address, or 50 from one address, within 15 minutes. A failure is counted in the database, so for all web workers.
    """
    address = _address(request)
    ensure_open(username=username, address=address)
    user = authenticate(request, username=username, password=password)
    if not isinstance(user, User):
        note_failure(username=username, address=address)
        raise WrongPassword("The user name or the password is wrong.")
    return user


def ensure_open(*, username: str, address: str | None) -> None:
    """Raise TooManyAttempts while the door is closed for this name or this address."""
    since = timezone.now() - timedelta(seconds=WINDOW_S)
    recent = SignInFailure.objects.filter(at__gt=since).filter(Q(address=address))
    named = recent.filter(username=_folded(username))
    for failures, limit in ((named, FAILURES_A_NAME), (recent, FAILURES_AN_ADDRESS)):
        times = list(failures.order_by("-at").values_list("at", flat=True)[:limit])
        if len(times) == limit:
            wait_s = max(1, int((times[-1] - since).total_seconds()) + 1)
            raise TooManyAttempts(
                f"Too many sign-ins have failed. Try again in {-(-wait_s // 60)} min.", extra={"wait_s": wait_s}
            )


def note_failure(*, username: str, address: str | None) -> None:
    """Count one wrong password, and forget those that no longer count."""
    with transaction.atomic():
        SignInFailure.objects.filter(at__lte=timezone.now() - timedelta(seconds=WINDOW_S)).delete()
        SignInFailure.objects.create(username=_folded(username), address=address)


def _folded(username: str) -> str:
    return username.strip().lower()[:150]


def _address(request: HttpRequest) -> str | None:
    """Whence the request came; behind a proxy, what that added last to X-Forwarded-For: the rest anyone can write."""
    address = request.META.get("REMOTE_ADDR", "")
    if settings.SECURE_PROXY_SSL_HEADER:
        address = request.META.get("HTTP_X_FORWARDED_FOR", "").rsplit(",", 1)[-1].strip() or address
    try:
        return str(ipaddress.ip_address(address))
    except ValueError:
        return None  # a Unix socket: all who come by it share one count
