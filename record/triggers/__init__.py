"""Append-only in the database itself, for what goes past models and querysets.

The bodies name no table but their own: Django rebuilds an SQLite table by renaming a new one into its place, and SQLite
fails that where a trigger elsewhere names the table that is gone. A rebuild drops the table's own triggers in silence,
which is why they are installed after every migrate and looked for at start.
"""

from dataclasses import dataclass

from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from record.errors import ConductorError


@dataclass(frozen=True)
class Trigger:
    """One trigger: `sql` creates it."""

    name: str
    table: str
    sql: str


def _sqlite(table: str, event: str, refused: str, message: str) -> Trigger:
    """A trigger that refuses `event` on the rows for which the condition `refused` holds."""
    name = f"{table}_{event.lower()}"
    sql = (
        f"CREATE TRIGGER {name} BEFORE {event} ON {table} FOR EACH ROW WHEN {refused} "
        f"BEGIN SELECT RAISE(ABORT, '{message}'); END"
    )
    return Trigger(name, table, sql)


# A BEFORE INSERT trigger sees INSERT OR REPLACE before it removes the row in its way; the DELETE trigger never does.
SQLITE = [
    _sqlite("record_decision", "UPDATE", "1", "the record is append-only: a decision never changes"),
    _sqlite("record_decision", "DELETE", "1", "the record is append-only: a decision is never deleted"),
    _sqlite(
        "record_decision",
        "INSERT",
        "EXISTS (SELECT 1 FROM record_decision WHERE id = NEW.id OR uuid = NEW.uuid"
        " OR (lab_id = NEW.lab_id AND number = NEW.number))",
        "the record is append-only: there is such a decision already",
    ),
    _sqlite(
        "record_statement",
        "UPDATE",
        "NOT (OLD.struck_by_id IS NULL AND NEW.struck_by_id IS NOT NULL AND NEW.decision_id = OLD.decision_id"
        " AND NEW.reason = '' AND NEW.answers = '{}' AND NEW.salt = '')",
        "the record is append-only: a statement can only be struck, once",
    ),
    _sqlite("record_statement", "DELETE", "1", "the record is append-only: a statement is never deleted"),
    _sqlite(
        "record_statement",
        "INSERT",
        "EXISTS (SELECT 1 FROM record_statement WHERE decision_id = NEW.decision_id)",
        "the record is append-only: there is such a statement already",
    ),
    _sqlite(
        "record_chainhead",
        "UPDATE",
        "NOT (NEW.lab_id = OLD.lab_id AND NEW.count = OLD.count + 1 AND NEW.digest <> OLD.digest)",
        "the record is append-only: the head of a chain only moves on by one",
    ),
    _sqlite("record_chainhead", "DELETE", "1", "the record is append-only: the head of a chain is never deleted"),
    _sqlite(
        "record_chainhead",
        "INSERT",
        "NEW.count <> 0 OR EXISTS (SELECT 1 FROM record_chainhead WHERE lab_id = NEW.lab_id)",
        "the record is append-only: a chain begins once, at nought",
    ),
]

TRIGGERS: dict[str, list[Trigger]] = {"sqlite": SQLITE}


def triggers_for(connection: BaseDatabaseWrapper) -> list[Trigger]:
    """The triggers that this kind of database needs; ConductorError for a kind that has none written."""
    try:
        return TRIGGERS[connection.vendor]
    except KeyError:
        raise ConductorError(
            f"The record can't be kept append-only on {connection.vendor}: use one of {', '.join(TRIGGERS)}."
        ) from None


def missing_triggers(connection: BaseDatabaseWrapper) -> list[Trigger]:
    """The triggers that are absent, or are not what they should be, on those tables that exist."""
    tables = set(connection.introspection.table_names())
    present = _installed(connection)
    return [t for t in triggers_for(connection) if t.table in tables and present.get(t.name) != _plain(t.sql)]


def install_triggers(using: str) -> list[Trigger]:
    """Put right what `missing_triggers` finds, and return it."""
    connection = connections[using]
    with transaction.atomic(using=using), connection.cursor() as cursor:
        missing = missing_triggers(connection)
        for trigger in missing:
            cursor.execute(f"DROP TRIGGER IF EXISTS {trigger.name}")
            cursor.execute(trigger.sql)
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


def _installed(connection: BaseDatabaseWrapper) -> dict[str, str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
        return {name: _plain(sql) for name, sql in cursor.fetchall()}


def _plain(sql: str) -> str:
    return " ".join(sql.replace('"', "").split())
