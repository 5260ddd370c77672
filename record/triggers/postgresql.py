"""PostgreSQL's triggers: one function and one trigger for each thing that is refused.

They are ENABLE ALWAYS, so that they hold under `session_replication_role = replica` too. They refuse as a constraint
does (SQLSTATE 23000), which Django tells as an IntegrityError, as it does on SQLite. What the owner of the tables may
do to the triggers themselves they can't refuse; `missing_triggers` tells of it.
"""

from django.db.backends.base.base import BaseDatabaseWrapper

from record.triggers.base import Trigger

# Bits of pg_trigger.tgtype, see src/include/catalog/pg_trigger.h
_ROW, _BEFORE = 1, 2
_EVENTS = {"INSERT": 4, "DELETE": 8, "UPDATE": 16, "TRUNCATE": 32}
ALWAYS = "A"


def _postgresql(table: str, event: str, refused: str, message: str) -> Trigger:
    """A trigger that refuses `event` on the rows for which the condition `refused` holds."""
    name = f"{table}_{event.lower()}"
    body = (
        f" BEGIN IF {refused} THEN RAISE EXCEPTION '{message}' USING ERRCODE = 'integrity_constraint_violation';"
        f" END IF; RETURN {'NEW' if event in ('INSERT', 'UPDATE') else 'NULL'}; END "
    )
    each = "STATEMENT" if event == "TRUNCATE" else "ROW"
    create = (
        f"CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $${body}$$",
        f"CREATE TRIGGER {name} BEFORE {event} ON {table} FOR EACH {each} EXECUTE FUNCTION {name}()",
        f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER {name}",
    )
    kind = _BEFORE + _EVENTS[event] + (_ROW if each == "ROW" else 0)
    return Trigger(name, table, create, f"DROP TRIGGER IF EXISTS {name} ON {table}", _told(kind, ALWAYS, "", body))


def _told(kind: int, enabled: str, narrowed: str, body: str) -> str:
    return f"{kind} {enabled} {narrowed}{body}"


TRIGGERS = [
    _postgresql("record_decision", "UPDATE", "TRUE", "the record is append-only: a decision never changes"),
    _postgresql("record_decision", "DELETE", "TRUE", "the record is append-only: a decision is never deleted"),
    _postgresql("record_decision", "TRUNCATE", "TRUE", "the record is append-only: decisions are never deleted"),
    _postgresql(
        "record_decision",
        "INSERT",
        "EXISTS (SELECT 1 FROM record_decision WHERE id = NEW.id OR uuid = NEW.uuid"
        " OR (lab_id = NEW.lab_id AND number = NEW.number))",
        "the record is append-only: there is such a decision already",
    ),
    _postgresql(
        "record_statement",
        "UPDATE",
        "NOT (OLD.struck_by_id IS NULL AND NEW.struck_by_id IS NOT NULL AND NEW.decision_id = OLD.decision_id"
        " AND NEW.reason = '' AND NEW.answers = '{}'::jsonb AND NEW.salt = '')",
        "the record is append-only: a statement can only be struck, once",
    ),
    _postgresql("record_statement", "DELETE", "TRUE", "the record is append-only: a statement is never deleted"),
    _postgresql("record_statement", "TRUNCATE", "TRUE", "the record is append-only: statements are never deleted"),
    _postgresql(
        "record_statement",
        "INSERT",
        "EXISTS (SELECT 1 FROM record_statement WHERE decision_id = NEW.decision_id)",
        "the record is append-only: there is such a statement already",
    ),
    _postgresql(
        "record_chainhead",
        "UPDATE",
        "NOT (NEW.lab_id = OLD.lab_id AND NEW.count = OLD.count + 1 AND NEW.digest <> OLD.digest)",
        "the record is append-only: the head of a chain only moves on by one",
    ),
    _postgresql(
        "record_chainhead", "DELETE", "TRUE", "the record is append-only: the head of a chain is never deleted"
    ),
    _postgresql("record_chainhead", "TRUNCATE", "TRUE", "the record is append-only: heads of chains are never deleted"),
    _postgresql(
        "record_chainhead",
        "INSERT",
        "NEW.count <> 0 OR EXISTS (SELECT 1 FROM record_chainhead WHERE lab_id = NEW.lab_id)",
        "the record is append-only: a chain begins once, at nought",
    ),
]

_INSTALLED = """
SELECT t.tgname, t.tgtype, t.tgenabled, t.tgqual IS NOT NULL OR t.tgattr::text <> '', p.prosrc
FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_proc p ON p.oid = t.tgfoid
WHERE NOT t.tgisinternal AND pg_table_is_visible(c.oid) AND c.relname = ANY(%s)
"""


def installed(connection: BaseDatabaseWrapper) -> dict[str, str]:
    """name -> kind, whether it is in force, whether it is narrowed to some rows or columns, and what it does."""
    with connection.cursor() as cursor:
        cursor.execute(_INSTALLED, [sorted({each.table for each in TRIGGERS})])
        return {
            name: _told(kind, enabled, "narrowed" if narrowed else "", body)
            for name, kind, enabled, narrowed, body in cursor.fetchall()
        }
