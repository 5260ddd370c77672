"""Append-only in the database itself, for what goes past models and querysets.

Triggers are installed after every migrate and looked for at start, since SQLite drops them when a table is rebuilt.
"""

from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from record.errors import ConductorError
from record.triggers import postgresql, sqlite
from record.triggers.base import Trigger

_KINDS = {"sqlite": sqlite, "postgresql": postgresql}


def triggers_for(connection: BaseDatabaseWrapper) -> list[Trigger]:
    """The triggers that this kind of database needs; ConductorError for a kind that has none written."""
    try:
        return _KINDS[connection.vendor].TRIGGERS
    except KeyError:
        raise ConductorError(
            f"The record can't be kept append-only on {connection.vendor}: use one of {', '.join(_KINDS)}."
        ) from None


def missing_triggers(connection: BaseDatabaseWrapper) -> list[Trigger]:
    """The triggers that are absent, or are not what they should be, on those tables that exist."""
    tables = set(connection.introspection.table_names())
    wanted = triggers_for(connection)
    present = _KINDS[connection.vendor].installed(connection)
    return [each for each in wanted if each.table in tables and present.get(each.name) != each.installed]


def install_triggers(using: str) -> list[Trigger]:
    """Put right what `missing_triggers` finds, and return it."""
    connection = connections[using]
    with transaction.atomic(using=using), connection.cursor() as cursor:
        missing = missing_triggers(connection)
        for trigger in missing:
            for statement in (trigger.drop, *trigger.create):
                cursor.execute(statement)
    return missing


def install_after_migrate(using: str, **kwargs: object) -> None:
    """Receiver of post_migrate, which comes after every migrate of any app and after a flush."""
    install_triggers(using)


def require_triggers(using: str = "default") -> None:
    """For long-running processes, at their start: ConductorError, with what to do, unless the record is protected."""
    missing = missing_triggers(connections[using])
    if missing:
        raise ConductorError(unprotected(missing), code="record_unprotected")


def unprotected(missing: list[Trigger]) -> str:
    """What is wrong, in words."""
    names = ", ".join(trigger.name for trigger in missing)
    return (
        f"The record is not protected against changes: the database lacks the triggers {names} (a rebuilt table loses"
        " them). Run `manage.py migrate`, which installs them, then `manage.py verify_record`."
    )
