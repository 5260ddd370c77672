"""Faults of the record's own making that Django's system checks can tell of."""

from collections.abc import Sequence
from typing import Any

from django.core.checks import CheckMessage, Tags, Warning, register
from django.db import connections

from record.triggers import missing_triggers, unprotected


@register(Tags.database)
def record_is_protected(databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """Warn of absent triggers. No error: `migrate` runs this check first, and is what installs them."""
    messages: list[CheckMessage] = []
    for alias in databases or []:
        if missing := missing_triggers(connections[alias]):
            messages.append(Warning(unprotected(missing), obj=f"database {alias}", id="record.W001"))
    return messages
