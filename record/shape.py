"""The shape of data that comes from elsewhere, by JSON Schema (draft 2020-12)."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError


def problems(value: object, schema: Mapping[str, Any]) -> "list[ValidationError]":
    """What stands against the value, in the order of its places; empty where it has the schema's shape."""
    # Not at the top: `conduct` and its workers seldom check a shape, and this takes 3 MB of each process.
    from jsonschema import Draft202012Validator

    return sorted(Draft202012Validator(schema).iter_errors(value), key=lambda problem: list(map(str, problem.path)))


def in_words(problem: "ValidationError", *, most_chars: int = 300) -> str:
    """Where it stands, and what it is; cut where it quotes at length."""
    where = ".".join(map(str, problem.absolute_path))
    message = problem.message if len(problem.message) < most_chars else f"{problem.message[:most_chars]} ..."
    return f"{where}: {message}" if where else message
