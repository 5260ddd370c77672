"""SQLite's triggers.

The bodies name no table but their own: Django rebuilds an SQLite table by renaming a new one into its place, and SQLite
fails that where a trigger elsewhere names the table that is gone. A rebuild drops the table's own triggers in silence,
which is why they are installed after every migrate and looked for at start.
"""

from django.db.backends.base.base import BaseDatabaseWrapper

from record.triggers.base import Trigger


def plain(sql: str) -> str:
    """A statement without quotes and with single spaces, as SQLite may have kept it either way."""
    return " ".join(sql.replace('"', "").split())


def _sqlite(table: str, event: str, refused: str, message: str) -> Trigger:
    """A trigger that refuses `event` on the rows for which the condition `refused` holds."""
    name = f"{table}_{event.lower()}"
    sql = (
        f"CREATE TRIGGER {name} BEFORE {event} ON {table} FOR EACH ROW WHEN {refused} "
        f"BEGIN SELECT RAISE(ABORT, '{message}'); END"
    )
    return Trigger(name, table, (sql,), f"DROP TRIGGER IF EXISTS {name}", plain(sql))


# A BEFORE INSERT trigger sees INSERT OR REPLACE before it removes the row in its way; the DELETE trigger never does.
TRIGGERS = [
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


def installed(connection: BaseDatabaseWrapper) -> dict[str, str]:
    """name -> the statement that made it, of every trigger there is."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
        return {name: plain(sql) for name, sql in cursor.fetchall()}
