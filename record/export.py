"""The record for the outside: enough to read it, and to check it without this program."""

import json
from collections.abc import Iterator
from typing import Any

from django.db.models import QuerySet

from record.models import Decision, Lab, Statement

ROWS_AT_ONCE = 500


def export_record(labs: QuerySet[Lab], *, since: int = 0) -> Iterator[dict[str, Any]]:
    """Each decision of these labs after number `since` of its chain, lab by lab.

    `digest` is SHA-256 of `previous_digest`, a line end and `canonical`; `decision` is `canonical` read as JSON. Its
    `statement` is SHA-256 of {"answers", "reason", "salt"} spelled likewise, unless a later decision struck those. A
    record that doesn't hold is exported too: null stands for what is gone or can't be read.
    """
    decisions = Decision.objects.filter(lab__in=labs, number__gt=since).order_by("lab_id", "number")
    for decision in decisions.in_full().iterator(ROWS_AT_ONCE):
        yield {
            "previous_digest": decision.previous_digest,
            "digest": decision.digest,
            "canonical": decision.canonical,
            "decision": _read(decision.canonical),
            "statement": _told(getattr(decision, "statement", None)),
        }


def _read(canonical: str) -> Any:
    try:
        return json.loads(canonical)
    except ValueError:
        return None


def _told(statement: Statement | None) -> dict[str, Any] | None:
    if statement is None:
        return None
    return {
        "salt": statement.salt,
        "reason": statement.reason,
        "answers": statement.answers,
        "struck_by": statement.struck_by.number if statement.struck_by else None,
    }
