"""What only tests may do to the record: lift its triggers; and how their processes find the database of a test."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

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


@contextmanager
def unchecked() -> Iterator[Any]:
    """A cursor for which no trigger and no foreign key holds."""
    off, on = {
        "sqlite": ("PRAGMA foreign_keys = OFF", "PRAGMA foreign_keys = ON"),
        "postgresql": ("SET session_replication_role = replica", "SET session_replication_role = origin"),
    }[connection.vendor]
    with lifted(), connection.cursor() as cursor:
        cursor.execute(off)
        yield cursor
        cursor.execute(on)


def database_environment() -> dict[str, str]:
    """The environment variables with which another process finds the database of this test."""
    found = connection.settings_dict
    if connection.vendor == "sqlite":
        return {"CONDUCTOR_SQLITE": str(found["NAME"])}
    return {"DATABASE_URL": f"postgresql://{found['USER']}@{found['HOST']}:{found['PORT']}/{found['NAME']}"}


def lift() -> None:
    """Drop the triggers, as a rebuild of every table would."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")  # no table is altered while checks of it are pending
        for trigger in triggers_for(connection):
            cursor.execute(trigger.drop)
