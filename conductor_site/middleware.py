"""What every response carries, and how every refusal and failure is told."""

import errno
import json
import logging
from collections.abc import Callable

from django.conf import settings
from django.db import DataError, InterfaceError, OperationalError, ProgrammingError
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.template.loader import render_to_string

from conductor_site.api.problems import MEDIA_TYPE, problem
from jobs.deadline import within
from record.errors import ConductorError
from record.rest import drain

log = logging.getLogger(__name__)

Next = Callable[[HttpRequest], HttpResponseBase]

POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "font-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
    ]
)
# Django would read it as an empty one, and what it asks for would be lost.
_LENGTH_UNKNOWN = (
    "What you sent does not say how long it is (it came in chunks), so it was not read and nothing was changed. "
    "Send it with a Content-Length."
)
UNREPEATED = {"csrfmiddlewaretoken", "password", "old_password", "new_password1", "new_password2"}


class ContentSecurityPolicy:
    """Nothing inline and nothing from another host, on every response that has no stricter policy of its own.

    Pages are one person's own: unless a view says otherwise, no cache on the way keeps them.
    """

    def __init__(self, get_response: Next) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        response = self.get_response(request)
        response.headers.setdefault("Content-Security-Policy", POLICY)
        response.headers.setdefault("Cache-Control", "private, no-cache")
        return response


class BodyRefused(HttpResponse):
    """A refusal that is sent before the body was read.

    After it is sent, a bounded part of the body is read and dropped: a socket closed on unread bytes would be reset,
    and the sender would see that instead of the answer.
    """

    def __init__(self, request: HttpRequest, status: int, code: str, message: str, **extra: int) -> None:
        super().__init__(status=status, headers={"Connection": "close"})
        # Without a length, Django's own reader takes the body for empty.
        self._body = request if _content_length(request) else request.META["wsgi.input"]
        if request.path_info.startswith("/api/"):
            self.headers["Content-Type"] = MEDIA_TYPE
            self.content = json.dumps(
                problem(status=status, code=code, detail=message, instance=request.path, extra=extra)
            )
        else:
            self.content = _bare_page(status, message)

    def close(self) -> None:
        drain(self._body)
        super().close()


class ShortCalls:
    """Who waits for a page or an answer, and the process that makes it, wait for no slow or dead target for long."""

    def __init__(self, get_response: Next) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        with within(settings.TARGET_WAIT_S):
            return self.get_response(request)


class ErrorsInWords:
    """Turns what went wrong into a page that says what happened to what and what to do; typed text is shown again."""

    def __init__(self, get_response: Next) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if request.META.get("HTTP_TRANSFER_ENCODING"):
            return BodyRefused(request, 411, "length_required", _LENGTH_UNKNOWN)
        limit = _body_limit(request)
        if _content_length(request) > limit:
            return BodyRefused(request, 413, "too_large", _too_large(limit), limit_bytes=limit)
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        if isinstance(exception, ConductorError):
            return error_page(request, exception.status, exception.message)
        if isinstance(exception, DataError):
            return error_page(request, 400, UNSTORABLE)
        if words := storage_trouble(exception):
            log.error("%s %s: %s", request.method, request.path, exception)
            return unavailable(request, words)
        return None


def error_page(request: HttpRequest, status: int, message: str, *, keep: bool = True) -> HttpResponse:
    """A refusal in words, inside the site's frame; with `keep`, a posted form's text comes back with it."""
    context = {"status": status, "message": message, "title": TITLES.get(status, "That did not work")}
    if keep and request.method == "POST":
        context |= _typed(request)
    return HttpResponse(render_to_string("error.html", context, request), status=status)


def unavailable(request: HttpRequest, words: str) -> HttpResponse:
    """A 503 in words that touches no database; a posted form's text comes back with it."""
    return HttpResponse(_bare_page(503, words, request), status=503, headers={"Retry-After": "5"})


def storage_trouble(exception: Exception) -> str:
    """What a locked database or a full disk means, in words; empty for any other exception."""
    text = str(exception).lower()
    if isinstance(exception, OperationalError) and any(word in text for word in ("locked", "lock timeout", "deadlock")):
        return "The database was busy for too long, so nothing was changed. Wait a few seconds and send it again."
    if isinstance(exception, OperationalError) and any(word in text for word in ("full", "disk i/o", "no space")):
        return _disk_full()
    if isinstance(exception, OSError) and exception.errno in (errno.ENOSPC, errno.EDQUOT):
        return _disk_full()
    if isinstance(exception, OperationalError | ProgrammingError) and ("no such" in text or "does not exist" in text):
        return (
            "The database was made by another version of Conductor, so nothing was changed. "
            "Whoever looks after this installation has to run `manage.py migrate`."
        )
    if isinstance(exception, OperationalError | InterfaceError):
        return (
            "The database does not answer, so nothing was changed. Send it again in a minute; "
            "if that fails too, tell whoever looks after this installation."
        )
    return ""


# PostgreSQL refuses what SQLite takes: NUL characters in text, numbers beyond a column's range.
UNSTORABLE = "Something in what you sent can't be kept (a NUL character, or too large a number); nothing was changed."

TITLES = {
    400: "That can't be used",
    403: "Not allowed",
    404: "Not found",
    409: "It has changed in the meantime",
    410: "That is gone",
    411: "Its length is missing",
    413: "Too large",
    502: "Something outside failed",
    503: "Not just now",
}


def _disk_full() -> str:
    return (
        "The disk that holds the database is full, so nothing was changed. "
        "Somebody has to make room; then send it again."
    )


def _too_large(limit: int) -> str:
    return (
        f"What you sent is larger than {limit // (1024 * 1024)} MiB and was not read, so nothing was changed. "
        "Data stays on the target: give its path there instead of the file."
    )


def _body_limit(request: HttpRequest) -> int:
    """Bytes that a request's body may have: files more, form fields less."""
    files = (request.content_type or "").startswith(("multipart/", "application/octet-stream"))
    return settings.UPLOAD_LIMIT_BYTES if files else settings.DATA_UPLOAD_MAX_MEMORY_SIZE


def _content_length(request: HttpRequest) -> int:
    try:
        return int(request.META.get("CONTENT_LENGTH") or 0)
    except ValueError:
        return 0


def _typed(request: HttpRequest) -> dict[str, object]:
    """The posted fields, to be shown and sent again; none of them if a password is among them."""
    if UNREPEATED & (request.POST.keys() - {"csrfmiddlewaretoken"}):
        return {}
    fields = [(name, value) for name, values in request.POST.lists() for value in values if name not in UNREPEATED]
    return {"typed": fields, "again": request.get_full_path(), "token": request.POST.get("csrfmiddlewaretoken", "")}


def _bare_page(status: int, message: str, request: HttpRequest | None = None) -> str:
    """The page without its navigation: it must come out when the database does not answer."""
    context: dict[str, object] = {"status": status, "message": message, "title": TITLES[status], "bare": True}
    if request is not None and request.method == "POST":
        context |= _typed(request)
    return render_to_string("error.html", context)
