"""What the record can keep: text that every database and page can carry, and JSON that means the same when read again.

Decisions are strict: what can't be kept as it was given is refused, in words. Events are lenient, since a mechanical
log must not stop the work: what can't be kept is made visible instead.
"""

import math
import re
from typing import Any

from record.canonical import EXACT_INTEGER
from record.errors import BadInput

REASON_LIMIT_BYTES = 1024 * 1024
JSON_LIMIT_BYTES = 4 * 1024 * 1024
DEPTH_LIMIT = 40

# Control characters other than tab and line ends, and halves of surrogate pairs (which have no UTF-8).
_UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")

# Unicode's bidirectional controls (UAX 9), zero-width characters, line and paragraph separators, and tags.
DIRECTION = re.compile("[\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]")


def kept_reason(reason: str) -> str:
    """`reason` with plain line ends; BadInput where it is too long or holds a character that can't be kept."""
    text = reason.replace("\r\n", "\n").replace("\r", "\n")
    _refuse_unfit(text, "The reason")
    if (size := len(text.encode())) > REASON_LIMIT_BYTES:
        raise BadInput(
            f"The reason is {size / 1e6:.1f} MB long; the record keeps up to {REASON_LIMIT_BYTES / 1e6:.1f} MB. Say the"
            " gist, and where the rest can be found."
        )
    return text


def kept_json(value: Any, what: str) -> Any:
    """`value` as JSON gives it back (tuples as lists); BadInput, with the place in `what`, where JSON can't hold it."""
    return _kept(value, what, 0)


def visible_text(text: str) -> str:
    """`text` with what can't be kept shown: control characters as their pictures (U+2400 on), the rest as U+FFFD."""
    return _UNFIT.sub(lambda found: chr(0x2400 + ord(found[0])) if ord(found[0]) < 0x20 else "\ufffd", text)


def unturned(text: str) -> str:
    """`text` without marks that turn, hide or break it."""
    return DIRECTION.sub("", text)


def visible_json(value: Any) -> Any:
    """`value` as JSON, with what JSON can't hold (NaN, a path, a date) as its text."""
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, list | tuple | set | frozenset):
        return [visible_json(each) for each in value]
    if isinstance(value, dict):
        return {visible_text(str(key)): visible_json(each) for key, each in value.items()}
    return visible_text(str(value))


def _kept(value: Any, place: str, depth: int) -> Any:
    if depth > DEPTH_LIMIT:
        raise BadInput(f"{place} is nested too deeply: {DEPTH_LIMIT} levels are kept.")
    if isinstance(value, str):
        _refuse_unfit(value, place)
        return str(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return _kept_number(value, place)
    if isinstance(value, list | tuple):
        return [_kept(each, f"{place}, item {position}", depth + 1) for position, each in enumerate(value, 1)]
    if isinstance(value, dict):
        return {_kept_key(key, place): _kept(each, f"{place}, {key}", depth + 1) for key, each in value.items()}
    raise BadInput(f"{place} is a {type(value).__name__}, which JSON can't hold: give text or a number.")


def _kept_number(value: float, place: str) -> float:
    if isinstance(value, float) and not math.isfinite(value):
        raise BadInput(f"{place} is {value}, which is not a number that can be kept: leave it out, or say so in words.")
    if isinstance(value, int) and abs(value) > EXACT_INTEGER:
        raise BadInput(f"{place} is {value}, too large to be kept exactly as a number: give it as text.")
    return value


def _kept_key(key: Any, place: str) -> str:
    if not isinstance(key, str):
        raise BadInput(f"{place} has the name {key!r}, which is not text.")
    _refuse_unfit(key, f"A name in {place}")
    return key


def _refuse_unfit(text: str, place: str) -> None:
    if found := _UNFIT.search(text):
        raise BadInput(
            f"{place} holds a character that can't be kept (U+{ord(found[0]):04X}, the {found.start() + 1}. character)."
            " Remove it, or paste the text without its formatting."
        )
