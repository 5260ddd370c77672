"""What the API reads."""

import json
from typing import Any

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from rest_framework.exceptions import ParseError
from rest_framework.parsers import BaseParser


class JSONBody(BaseParser):
    """JSON in UTF-8 within the size limit, and nothing that a database can't keep: NaN, NUL, lone surrogates."""

    media_type = "application/json"

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> Any:
        limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        raw = stream.read(limit + 1)
        if len(raw) > limit:
            raise RequestDataTooBig(f"more than {limit} bytes")
        try:
            value = json.loads(raw.decode("utf-8"), parse_constant=_refuse_constant)
            text = json.dumps(value, ensure_ascii=False)
            text.encode("utf-8")
        except (ValueError, RecursionError) as error:
            raise ParseError(f"The body is not JSON that can be kept: {error}") from error
        if "\\u0000" in text:
            raise ParseError("The body holds a NUL character, which can't be kept.")
        return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number")
