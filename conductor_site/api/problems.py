"""How a refusal is written: the problem details of RFC 9457, with our own `code` and `extra`."""

from http import HTTPStatus
from typing import Any

MEDIA_TYPE = "application/problem+json"

_TITLES = {
    400: "The input can't be used",
    401: "Not signed in",
    403: "Not allowed",
    404: "Not found",
    409: "It is in another state, or was changed meanwhile",
    410: "It is gone",
    413: "Too large",
    422: "The key was used for something else",
    429: "Too many requests",
    500: "Conductor failed",
    502: "Something outside failed",
    503: "Not just now",
}


def problem(*, status: int, code: str, detail: str, instance: str, extra: dict[str, Any]) -> dict[str, Any]:
    """The body of a refusal. `detail` is for people, `code` a stable word for programs, `extra` holds JSON values.

    `type` names the code as a URN: no page lies behind it, docs/api.md lists what each status means.
    """
    return {
        "type": f"urn:conductor:problem:{code}",
        "title": _TITLES.get(status) or HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "instance": instance,
        "code": code,
        "extra": extra,
    }
