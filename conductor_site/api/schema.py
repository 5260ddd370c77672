"""What the schema says of every address alike: how it refuses, how a read is asked again, how a command is repeated."""

from typing import Any

from conductor_site.api.problems import MEDIA_TYPE

_PROBLEM = {"$ref": "#/components/schemas/Problem"}
_REFUSALS = {
    "400": "the input can't be used; nothing was changed",
    "401": "no token, or one that is wrong or has expired",
    "403": "you may see it, not do it",
    "404": "there is no such thing, or it belongs to a lab that you are not in",
    "406": "it is offered as JSON only",
    "429": "too many requests within a minute; wait as long as Retry-After says",
    "503": "the database is busy or its disk is full; nothing was changed",
}
_REFUSALS_OF_BODIES = {
    "409": "it has changed, or is in a state in which that means nothing",
    "411": "the body's length is missing",
    "413": "the body is too large",
    "415": "the body is of another kind",
}
_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "the first answer to a command with this key is given again, and nothing is done twice",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]+$"},
}
_HAVE = {
    "name": "If-None-Match",
    "in": "header",
    "description": "ETag of the answer that you have; 304 if it still holds",
    "schema": {"type": "string"},
}
_REUSED = {"422": "the key came before with another command or another body"}
REPEATABLE = "x-repeatable"


def complete(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """A hook of drf-spectacular: add to each operation what no view has to say by itself."""
    for operations in result["paths"].values():
        for method, operation in operations.items():
            _refusals(method, operation)
            if method == "get" and _is_json(operation):
                _conditional(operation)
    return result


def _refusals(method: str, operation: dict[str, Any]) -> None:
    responses = operation["responses"]
    texts = dict(_REFUSALS)
    if method == "post":
        texts |= _REFUSALS_OF_BODIES
    if operation.pop(REPEATABLE, False):
        texts |= _REUSED
        operation.setdefault("parameters", []).append(_KEY)
    for status in {*texts, *(each for each in responses if int(each) >= 400)}:
        said = responses.get(status, {}).get("description") or texts.get(status, "")
        responses[status] = {"description": said, "content": {MEDIA_TYPE: {"schema": _PROBLEM}}}
    operation["responses"] = dict(sorted(responses.items()))


def _is_json(operation: dict[str, Any]) -> bool:
    return "application/json" in operation["responses"].get("200", {}).get("content", {})


def _conditional(operation: dict[str, Any]) -> None:
    operation.setdefault("parameters", []).append(_HAVE)
    operation["responses"]["304"] = {"description": "what you have still holds"}
