"""The digest that an answer is bound to, and what differs between two of them."""

from typing import Any

from gates.models import Gate
from record.canonical import canonical_text, sha256_hex


def items_of(gate: Gate) -> dict[str, str]:
    """name -> SHA-256 of each piece of evidence at the gate."""
    return dict(gate.evidence.order_by("name").values_list("name", "sha256"))


def evidence_digest(items: dict[str, str], suggestion: dict[str, Any]) -> str:
    """Hex SHA-256 over the sorted names and hashes of the evidence, and the suggestion."""
    return sha256_hex(canonical_text({"evidence": items, "suggestion": suggestion}))


def what_changed(seen: Gate, shown: Gate) -> list[str]:
    """How the evidence that `shown` has differs from what `seen` (an earlier iteration) had, in words."""
    before, after = items_of(seen), items_of(shown)
    changed = [name for name in after if name in before and before[name] != after[name]]
    parts = [
        listed("changed", changed),
        listed("new", [name for name in after if name not in before]),
        listed("gone", [name for name in before if name not in after]),
    ]
    if seen.suggestion != shown.suggestion:
        parts.append("the suggestion is another")
    return [part for part in parts if part]


def listed(word: str, names: list[str]) -> str:
    """The first few names after the word; empty for none."""
    if not names:
        return ""
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"{word}: {', '.join(names[:5])}{more}"
