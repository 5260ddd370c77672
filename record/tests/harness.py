"""What only tests may do to the record: lift its triggers."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection

from record.triggers import install_triggers, triggers_for


@contextmanager
def lifted() -> Iterator[None]:
    """Without the triggers inside; with them again after."""
    lift()
    try:
        yield
    finally:
        install_triggers(connection.alias)


def lift() -> None:
    """Drop the triggers, as a rebuild of every table would."""
    with connection.cursor() as cursor:
        for trigger in triggers_for(connection):
            cursor.execute(f"DROP TRIGGER IF EXISTS {trigger.name}")
