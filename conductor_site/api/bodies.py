"""What the API reads."""

import json
import math
from typing import Any

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from rest_framework.exceptions import ParseError
from rest_framework.parsers import BaseParser

from record.values import kept_json


class JSONBody(BaseParser):
    """JSON in UTF-8 within the size limit that means one thing (a name once) and can be kept as it is.

    Refused in words: NaN and numbers beyond a float, whole numbers beyond 2**53, control characters, lone surrogates,
    and deep nesting.
    """

    media_type = "application/json"

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> Any:
        limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        raw = stream.read(limit + 1)
        if len(raw) > limit:
            raise RequestDataTooBig(f"more than {limit} bytes")
        try:
            value = json.loads(
                raw.decode("utf-8"),
                parse_constant=_refuse_constant,
                parse_float=_finite,
                object_pairs_hook=_names_once,
            )
        except (ValueError, RecursionError) as error:
            raise ParseError(f"The body is not JSON that can be kept: {error}.") from error
        return kept_json(value, "The body")


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is beyond every number that can be kept")
    return number


def _names_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{name[:80]!r} is given twice")
        found[name] = value
    return found
