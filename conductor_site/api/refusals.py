"""How the API says that something was refused, or has failed."""

import logging
import math
from typing import Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.core.signals import got_request_exception
from django.db import DataError
from django.http import Http404
from rest_framework import exceptions
from rest_framework.response import Response
from rest_framework.views import set_rollback

from conductor_site.api.problems import MEDIA_TYPE, problem
from conductor_site.middleware import UNSTORABLE, storage_trouble
from record.errors import ConductorError

log = logging.getLogger(__name__)


def explain(error: Exception, context: dict[str, Any]) -> Response:
    """Turn what was raised into a problem (RFC 9457); a fault of ours is logged and told as a 500.

    For bad input, `fields` in its `extra` maps a field's name to the list of what is wrong with it.
    """
    response = _refusal(error) or _fault(error, context)
    set_rollback()
    response["Cache-Control"] = "no-store"
    response.data["instance"] = getattr(context.get("request"), "path", "")
    return response


def _refusal(error: Exception) -> Response | None:
    if isinstance(error, ConductorError):
        return _later(_answer(error.status, error.code, error.message, error.extra), error.extra.get("wait_s"))
    if isinstance(error, DataError):
        return _answer(400, "bad_input", UNSTORABLE)
    if words := storage_trouble(error):
        log.error("the database or its disk refused a request: %s", error)
        return _later(_answer(503, "unavailable", words), 5)
    if isinstance(error, RequestDataTooBig):
        return _answer(413, "too_large", "The request is larger than the server takes; nothing was changed.")
    if isinstance(error, Http404):
        return _answer(404, "not_found", "There is no such thing, or it belongs to a lab that you are not in.")
    if isinstance(error, PermissionDenied):
        return _answer(403, "not_allowed", str(error) or "You may not do that.")
    if isinstance(error, SuspiciousOperation):
        return _answer(400, "bad_input", str(error))
    if isinstance(error, exceptions.APIException):
        return _framework_refusal(error)
    return None


def _fault(error: Exception, context: dict[str, Any]) -> Response:
    request = context.get("request")
    log.error("a request to %s failed", getattr(request, "path", "?"), exc_info=error)
    got_request_exception.send(sender=None, request=request)
    return _answer(500, "error", "Conductor failed while answering; it has been written to the log. Try again later.")


_CODES = {
    "not_authenticated": "not_signed_in",
    "authentication_failed": "not_signed_in",
    "permission_denied": "not_allowed",
    "parse_error": "bad_input",
    "invalid": "bad_input",
    "throttled": "too_many_requests",
}


def _framework_refusal(error: exceptions.APIException) -> Response:
    if isinstance(error, exceptions.ValidationError):
        return _invalid(error)
    code = str(error.get_codes())
    message = str(error.detail)
    if isinstance(error, exceptions.NotAuthenticated):
        message = "Sign in, or send the header 'Authorization: Token ...'; POST /api/v1/token/ gives you a token."
    if isinstance(error, exceptions.AuthenticationFailed):
        message = "The token is wrong, was given up, or has expired; POST /api/v1/token/ gives you another."
    if isinstance(error, exceptions.Throttled):
        message = "Too many requests within a minute; nothing was changed. Wait as long as Retry-After says."
    response = _answer(error.status_code, _CODES.get(code, code), message)
    if header := getattr(error, "auth_header", None):
        response["WWW-Authenticate"] = header
    return _later(response, getattr(error, "wait", None))


def _invalid(error: exceptions.ValidationError) -> Response:
    detail: Any = error.detail
    if isinstance(detail, list):
        detail = {"non_field_errors": detail}
    where = ", ".join(name for name in detail if name != "non_field_errors")
    message = f"The input can't be used; look at: {where}." if where else " ".join(_flat(detail))
    return _answer(400, "bad_input", f"{message} Nothing was changed.", {"fields": detail})


def _flat(detail: dict[str, Any]) -> list[str]:
    """All that is wrong, each with its full stop."""
    return [
        f"{str(text).rstrip('.')}."
        for texts in detail.values()
        for text in (texts if isinstance(texts, list) else [texts])
    ]


def _later(response: Response, wait_s: float | None) -> Response:
    if wait_s:
        response["Retry-After"] = str(math.ceil(wait_s))
    return response


def _answer(status: int, code: str, message: str, extra: dict[str, Any] | None = None) -> Response:
    body = problem(status=status, code=code, detail=message, instance="", extra=extra or {})
    return Response(body, status=status, content_type=MEDIA_TYPE)
