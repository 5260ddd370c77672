"""A decision can't be changed or removed: not through the model, not through a queryset, not in SQL."""

import pytest
from django.db import DatabaseError, connection, transaction
from django.db.models import ProtectedError

from record.errors import NotAllowed
from record.models import ChainHead, Decision, Lab, Statement
from record.tests.factories import People, decide


@pytest.fixture
def decision(lab: Lab, people: People) -> Decision:
    decide(lab, people.reviewer, reason="the first")
    return decide(lab, people.reviewer, reason="the layers are sharp", answers={"threshold": 0.4})


def dump() -> list[list[tuple]]:
    tables = (Decision, Statement, ChainHead)
    return [list(table.objects.order_by("pk").values_list()) for table in tables]


def refused(sql: str) -> None:
    """The statement fails with the record's own words, and nothing is different after it."""
    before = dump()
    words = pytest.raises(DatabaseError, match="the record is append-only")
    connection.check_constraints()  # none of them is pending, which would refuse a TRUNCATE before we do
    with words, transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(sql)
    assert dump() == before


def test_saving_again_is_refused(decision: Decision) -> None:
    decision.verdict = "reject"
    with pytest.raises(NotAllowed):
        decision.save()
    with pytest.raises(NotAllowed):
        decision.save(update_fields=["verdict"])
    with pytest.raises(DatabaseError), transaction.atomic():
        decision.save(force_insert=True)
    with pytest.raises(DatabaseError), transaction.atomic():
        decision.save_base(force_update=True)  # past save()
    decision.refresh_from_db()
    assert decision.verdict == "approve"


def test_deleting_is_refused(decision: Decision) -> None:
    with pytest.raises(NotAllowed):
        decision.delete()


@pytest.mark.parametrize("manager", ["objects", "_base_manager", "_default_manager"])
def test_every_queryset_is_refused(decision: Decision, manager: str) -> None:
    rows = getattr(Decision, manager).all()
    before = dump()
    for change in (
        lambda: rows.update(verdict="reject"),
        lambda: rows.delete(),
        lambda: rows.filter(pk=decision.pk)._raw_delete(rows.db),
        lambda: rows.bulk_update([decision], ["verdict"]),
        lambda: rows.bulk_create([decision], update_conflicts=True, update_fields=["verdict"], unique_fields=["id"]),
        lambda: rows.update_or_create(defaults={"verdict": "reject"}, pk=decision.pk),
    ):
        with pytest.raises((NotAllowed, DatabaseError)), transaction.atomic():
            change()
    assert dump() == before


def test_statements_and_heads_are_refused_too(decision: Decision) -> None:
    before = dump()
    for change in (
        lambda: Statement.objects.update(reason="another"),
        lambda: Statement.objects.all().delete(),
        lambda: ChainHead.objects.update(count=1),
        lambda: ChainHead.objects.all().delete(),
        lambda: Statement.objects.bulk_create(
            [decision.statement], update_conflicts=True, update_fields=["reason"], unique_fields=["decision"]
        ),
    ):
        with pytest.raises((NotAllowed, DatabaseError)), transaction.atomic():
            change()
    assert dump() == before


def test_what_a_decision_names_can_not_be_deleted(decision: Decision, people: People, lab: Lab) -> None:
    for named in (people.reviewer, lab):
        with pytest.raises(ProtectedError):
            named.delete()


COLUMNS = ", ".join(field.column for field in Decision._meta.concrete_fields)
REJECTED = COLUMNS.replace("verdict", "'reject'", 1)
NEW_UUID = {"sqlite": "hex(randomblob(16))", "postgresql": "gen_random_uuid()"}[connection.vendor]
SAME_PLACE = REJECTED.replace("id", "id + 100", 1).replace("uuid", NEW_UUID, 1)
INTO = f"INTO record_decision ({COLUMNS}) SELECT"

DECISIONS = [
    "UPDATE record_decision SET verdict = 'reject'",
    "DELETE FROM record_decision",
    "DELETE FROM record_decision WHERE number = 2",
    f"INSERT {INTO} {REJECTED} FROM record_decision WHERE true ON CONFLICT (id) DO UPDATE SET verdict = 'reject'",
    f"INSERT {INTO} {SAME_PLACE} FROM record_decision",
]
DECISIONS_BY_KIND = {
    "sqlite": [
        "UPDATE OR REPLACE record_decision SET number = 1",
        "UPDATE OR IGNORE record_decision SET verdict = 'reject'",
        f"INSERT OR REPLACE {INTO} {REJECTED} FROM record_decision",
        f"REPLACE {INTO} {REJECTED} FROM record_decision WHERE number = 2",
        f"INSERT OR IGNORE {INTO} {REJECTED} FROM record_decision",
        f"INSERT OR REPLACE {INTO} {SAME_PLACE} FROM record_decision",
    ],
    "postgresql": [
        "TRUNCATE record_decision CASCADE",
        f"INSERT {INTO} {REJECTED} FROM record_decision ON CONFLICT DO NOTHING",
        f"INSERT {INTO} {SAME_PLACE} FROM record_decision WHERE number = 2"
        " ON CONFLICT (lab_id, number) DO UPDATE SET verdict = 'reject'",
        "SET LOCAL session_replication_role = replica; UPDATE record_decision SET verdict = 'reject'",
        "SET LOCAL session_replication_role = replica; DELETE FROM record_decision",
        "MERGE INTO record_decision d USING record_lab l ON d.lab_id = l.id WHEN MATCHED THEN DELETE",
        "WITH gone AS (DELETE FROM record_decision RETURNING *) SELECT * FROM gone",
    ],
}


@pytest.mark.parametrize("sql", DECISIONS + DECISIONS_BY_KIND[connection.vendor])
def test_sql_on_decisions_is_refused(decision: Decision, sql: str) -> None:
    refused(sql)


STATEMENTS_AND_HEADS = [
    "UPDATE record_statement SET reason = 'another'",
    "UPDATE record_statement SET reason = '', answers = '{}', salt = ''",  # struck by nothing
    "UPDATE record_statement SET struck_by_id = decision_id",  # struck, and yet there
    "UPDATE record_statement SET reason = '', answers = '{\"a\": 1}', salt = '', struck_by_id = decision_id",
    "DELETE FROM record_statement",
    "UPDATE record_chainhead SET count = count - 1, digest = 'x'",
    "UPDATE record_chainhead SET count = count + 2, digest = 'x'",
    "UPDATE record_chainhead SET digest = 'x'",
    "UPDATE record_chainhead SET count = count + 1",
    "DELETE FROM record_chainhead",
    "INSERT INTO record_chainhead (lab_id, count, digest) SELECT id, 5, 'x' FROM record_lab WHERE slug = 'other'",
]
STATEMENTS_AND_HEADS_BY_KIND = {
    "sqlite": [
        "UPDATE OR REPLACE record_statement SET decision_id = 1, reason = '', answers = '{}', salt = '',"
        " struck_by_id = decision_id",
        "INSERT OR REPLACE INTO record_statement (decision_id, salt, reason, answers)"
        " SELECT decision_id, salt, 'another', answers FROM record_statement",
        "INSERT OR REPLACE INTO record_chainhead (lab_id, count, digest)"
        " SELECT lab_id, 0, digest FROM record_chainhead",
    ],
    "postgresql": [
        "TRUNCATE record_statement",
        "TRUNCATE record_chainhead",
        "INSERT INTO record_statement (decision_id, salt, reason, answers) SELECT decision_id, salt, 'another', answers"
        " FROM record_statement ON CONFLICT (decision_id) DO UPDATE SET reason = 'another'",
        "INSERT INTO record_chainhead (lab_id, count, digest) SELECT lab_id, 0, digest FROM record_chainhead"
        " ON CONFLICT (lab_id) DO UPDATE SET count = 0",
    ],
}


@pytest.mark.parametrize("sql", STATEMENTS_AND_HEADS + STATEMENTS_AND_HEADS_BY_KIND[connection.vendor])
def test_sql_on_statements_and_heads_is_refused(decision: Decision, sql: str) -> None:
    refused(sql)
