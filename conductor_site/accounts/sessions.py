"""How long a session lasts: it ends when nobody used it for a while, and in any case after some days."""

import time
from collections.abc import Callable

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import SESSION_KEY, logout
from django.http import HttpRequest, HttpResponseBase

BEGAN, USED = "began_at_s", "used_at_s"
WRITE_EVERY_S = 60  # a session's row is written once a minute at most
Next = Callable[[HttpRequest], HttpResponseBase]


class SessionLimits:
    """Signs out who has been idle, or signed in, for longer than the settings allow.

    A page that asks for news of itself (htmx) is no use by a person: an open tab does not keep its session alive.
    """

    def __init__(self, get_response: Next) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if SESSION_KEY in request.session:
            self._look_at(request)
        return self.get_response(request)

    def _look_at(self, request: HttpRequest) -> None:
        now = time.time()
        began = request.session.get(BEGAN, now)
        used = request.session.get(USED, now)
        if now - began >= settings.SESSION_LONGEST_S:
            _sign_out(request, "You signed in a while ago; for safety, sign in once more.")
        elif now - used >= settings.SESSION_IDLE_S:
            _sign_out(request, "Nobody used this browser for a while, so you were signed out.")
        elif BEGAN not in request.session or (now - used >= WRITE_EVERY_S and not _polls(request)):
            request.session[BEGAN], request.session[USED] = began, now


def _polls(request: HttpRequest) -> bool:
    return request.method == "GET" and request.headers.get("HX-Request") == "true"


def _sign_out(request: HttpRequest, why: str) -> None:
    logout(request)
    messages.info(request, why)
