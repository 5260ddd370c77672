"""Answers as plain JSON: made from a form, checked, compared."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from datetime import date
from decimal import Decimal
from typing import Any

from django import forms

from gates.errors import InvalidAnswers
from record.errors import BadInput

MAX_ANSWERS_BYTES = 512 * 1024
MAX_REASON_CHARACTERS = 10_000
REMARKS = frozenset({"note", "reason"})  # what is said about a row; no difference in judgement

_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


def unprintable(text: str) -> bool:
    """Whether `text` holds control characters (other than tab and line ends) or halves of surrogate pairs."""
    return bool(_UNPRINTABLE.search(text))


def texts_in(value: Any) -> Iterator[str]:
    """Every text in a JSON value, the names of objects too."""
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, Mapping):
            left += each.keys()
            left += each.values()
        elif isinstance(each, list):
            left += each


def form_answers(form: forms.Form) -> dict[str, Any]:
    """The cleaned data of a valid form as JSON values (numbers finite, dates ISO, sets sorted); InvalidAnswers else."""
    try:
        answers = {name: _plain(value) for name, value in form.cleaned_data.items()}
    except ValueError as error:
        raise InvalidAnswers(f"These answers can't be kept: {error}.") from error
    if len(json.dumps(answers)) > MAX_ANSWERS_BYTES:
        raise InvalidAnswers(f"These answers are longer than {MAX_ANSWERS_BYTES // 1024} KiB; shorten the texts.")
    return answers


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        if unprintable(value):
            raise ValueError("a text holds control characters")
        return value
    if isinstance(value, float | Decimal):
        if not math.isfinite(value):
            raise ValueError("a number is not finite")
        return float(value)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(_plain(key)): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, set | frozenset):
        return sorted(_plain(each) for each in value)
    raise ValueError(f"{type(value).__name__} is no plain value")


def clean_reason(text: object) -> str:
    """The reason as it is kept: stripped, its line ends made one kind. BadInput where it can't be kept."""
    if not isinstance(text, str):
        raise BadInput("The reason must be a text.")
    reason = text.replace("\r\n", "\n").replace("\r", "\n").strip()
    if unprintable(reason):
        raise BadInput("The reason holds control characters; write it as plain text.")
    if len(reason) > MAX_REASON_CHARACTERS:
        raise BadInput(f"The reason has {len(reason)} characters; keep it within {MAX_REASON_CHARACTERS}.")
    return reason


def differences(answers: Mapping[str, Any], suggestion: Mapping[str, Any]) -> list[str]:
    """Where `answers` depart from `suggestion`, as dotted paths. What only one of them speaks of is no difference, and
    neither is what was remarked about a row."""
    found: list[str] = []
    for name in suggestion:
        if name not in answers or name in REMARKS:
            continue
        ours, theirs = answers[name], suggestion[name]
        if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
            found += [f"{name}.{path}" for path in differences(ours, theirs)]
        elif ours != theirs:
            found.append(name)
    return found
