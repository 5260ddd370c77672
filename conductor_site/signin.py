"""Checking a name and a password, with a door that closes for a while after too many wrong ones.

Failures are counted by the address that they come from. Where many share one (a login node, a proxy), one of them could
shut the others out; so a browser in which a person has signed in before carries a signed mark, and is counted alone.
"""

import ipaddress
import secrets
from datetime import timedelta

from django.conf import settings
from django.contrib.auth import authenticate
from django.contrib.auth.models import User
from django.core import signing
from django.db import transaction
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from conductor_site.address import client_address
from conductor_site.models import SignInFailure
from record.errors import ConductorError

WINDOW_S = 15 * 60
FAILURES_A_NAME = 10  # from one address, so that a stranger elsewhere can't lock a person out
FAILURES_AN_ADDRESS = 50
FAILURES_AN_ACCOUNT = 100  # from wherever: guessing from many addresses ends too, except for browsers that are known
KNOWN_COOKIE = "conductor_known"
KNOWN_FOR_S = 90 * 24 * 3600


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
    address (or in a browser that is known to be theirs), 50 from one address, or 100 for one name from anywhere, within
    15 minutes. A failure is counted in the database, so for all web workers.
    """
    address, browser = counted_address(request), known_browser(request, username)
    ensure_open(username=username, address=address, browser=browser)
    user = authenticate(request, username=username, password=password)
    if not isinstance(user, User):
        note_failure(username=username, address=address, browser=browser)
        raise WrongPassword("The user name or the password is wrong.")
    return user


def check_own_password(*, request: HttpRequest, user: User, password: str) -> None:
    """Whether who sits at the page knows the account's password; counted as sign_in counts. Raises as it does."""
    name = user.get_username()
    address, browser = counted_address(request), known_browser(request, name)
    ensure_open(username=name, address=address, browser=browser)
    if not user.check_password(password):
        note_failure(username=name, address=address, browser=browser)
        raise WrongPassword("That is not your password as it is now.")


def ensure_open(*, username: str, address: str | None, browser: str = "") -> None:
    """Raise TooManyAttempts while the door is closed for this name or this address; for a known browser, for itself."""
    since = timezone.now() - timedelta(seconds=WINDOW_S)
    recent = SignInFailure.objects.filter(at__gt=since)
    strangers = recent.filter(Q(address=address), browser="")
    of_name = recent.filter(username=_folded(username), browser="")
    counted = [
        (strangers.filter(username=_folded(username)), FAILURES_A_NAME),
        (strangers, FAILURES_AN_ADDRESS),
        (of_name, FAILURES_AN_ACCOUNT),
    ]
    if browser:
        counted = [(recent.filter(browser=browser), FAILURES_A_NAME)]
    for failures, limit in counted:
        times = list(failures.order_by("-at").values_list("at", flat=True)[:limit])
        if len(times) == limit:
            wait_s = max(1, int((times[-1] - since).total_seconds()) + 1)
            raise TooManyAttempts(
                f"Too many sign-ins have failed. Try again in {-(-wait_s // 60)} min.", extra={"wait_s": wait_s}
            )


def note_failure(*, username: str, address: str | None, browser: str = "") -> None:
    """Count one wrong password, and forget those that no longer count."""
    with transaction.atomic():
        SignInFailure.objects.filter(at__lte=timezone.now() - timedelta(seconds=WINDOW_S)).delete()
        SignInFailure.objects.create(username=_folded(username), address=address, browser=browser)


def known_browser(request: HttpRequest, username: str) -> str:
    """The mark of this browser, if this person has signed in with it before; else empty."""
    try:
        name, mark = signing.loads(request.COOKIES.get(KNOWN_COOKIE, ""), salt=KNOWN_COOKIE, max_age=KNOWN_FOR_S)
    except (signing.BadSignature, ValueError):
        return ""
    return str(mark) if name == _folded(username) else ""


def remember_browser(request: HttpRequest, response: HttpResponse, user: User) -> None:
    """Mark the browser as one in which `user` has signed in; it gives no access, only a count of its own."""
    name = _folded(user.get_username())
    mark = known_browser(request, name) or secrets.token_hex(16)
    response.set_cookie(
        KNOWN_COOKIE,
        signing.dumps([name, mark], salt=KNOWN_COOKIE),
        max_age=KNOWN_FOR_S,
        path=settings.SESSION_COOKIE_PATH,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )


def _folded(username: str) -> str:
    return username.strip().lower()[:150]


def counted_address(request: HttpRequest) -> str | None:
    """What failures are counted by; None (a Unix socket): all who come by it share one count."""
    found = client_address(request)
    if isinstance(found, ipaddress.IPv6Address):
        found = ipaddress.ip_network((int(found), 64), strict=False).network_address  # one host has a whole /64
    return None if found is None else str(found)
