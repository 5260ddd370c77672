"""The text that a decision's hash is over: one spelling for one meaning."""

import hashlib
import json
from typing import Any

EXACT_INTEGER = 2**53  # beyond this a whole number and its float differ


def canonical_text(payload: dict[str, Any]) -> str:
    """JSON with sorted keys, no spaces, no NaN, non-ASCII characters as they are, and one spelling for a number.

    A database may give back 2 for 2.0, or a whole number for 6e23; the text is the same for both.
    """
    return json.dumps(_spelled(payload), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def sha256_hex(text: str) -> str:
    """Hex SHA-256 of the UTF-8 bytes of `text` (64 characters)."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def link_digest(previous: str, canonical: str) -> str:
    """The digest of a decision in its lab's chain: over the digest before it and its own text."""
    return sha256_hex(f"{previous}\n{canonical}")


def statement_digest(salt: str, reason: str, answers: dict[str, Any]) -> str:
    """Digest of what a person wrote; salted, so that a struck secret can't be guessed back from it."""
    return sha256_hex(canonical_text({"salt": salt, "reason": reason, "answers": answers}))


def _spelled(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _spelled(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_spelled(each) for each in value]
    if isinstance(value, float) and value.is_integer() and abs(value) <= EXACT_INTEGER:
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > EXACT_INTEGER:
        return float(value)
    return value
