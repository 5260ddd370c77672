"""The triggers are there after every migration, and their absence is told."""

from io import StringIO
from typing import Any

import pytest
from django.apps import apps
from django.core.checks import run_checks
from django.core.management import call_command
from django.db import connection, migrations, models

from record.errors import ConductorError
from record.models import ChainHead, Decision, Lab, Statement
from record.tests.factories import People, decide
from record.tests.harness import lift
from record.triggers import install_triggers, missing_triggers, require_triggers, triggers_for

PROTECTED = (Decision, Statement, ChainHead)


def names(triggers: list[Any]) -> set[str]:
    return {trigger.name for trigger in triggers}


def migrate_by_adding_a_field(model: type[models.Model]) -> None:
    """Run the kind of migration for which SQLite rebuilds a table."""
    from django.db.migrations.state import ProjectState

    before = ProjectState.from_apps(apps)
    operation = migrations.AddField(model._meta.model_name, "weight", models.IntegerField(default=1))
    after = before.clone()
    operation.state_forwards("record", after)
    with connection.schema_editor() as editor:
        operation.database_forwards("record", editor, before, after)


@pytest.mark.django_db
def test_a_migrated_database_has_them_all() -> None:
    assert missing_triggers(connection) == []
    require_triggers()


@pytest.mark.skipif(connection.vendor != "sqlite", reason="only SQLite rebuilds a table to change it")
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("model", PROTECTED)
def test_a_rebuilt_table_loses_them_is_told_and_mended_by_migrate(model: type[models.Model]) -> None:
    table = model._meta.db_table
    migrate_by_adding_a_field(model)
    try:
        lost = missing_triggers(connection)
        assert names(lost) == {t.name for t in triggers_for(connection) if t.table == table}
        with pytest.raises(ConductorError, match=rf"{table}_update.*manage.py migrate"):
            require_triggers()
        (warning,) = [m for m in run_checks(databases=["default"]) if m.id == "record.W001"]
        assert f"{table}_delete" in warning.msg

        call_command("migrate", stdout=StringIO(), stderr=StringIO(), skip_checks=False)  # its own check lets it
        assert missing_triggers(connection) == []
    finally:
        with connection.schema_editor() as editor:
            column = models.IntegerField(default=1)
            column.set_attributes_from_name("weight")
            editor.remove_field(model, column)
        install_triggers("default")


@pytest.mark.django_db(transaction=True)
def test_rows_survive_a_rebuild_under_the_triggers(lab: Lab, people: People) -> None:
    decision = decide(lab, people.reviewer)
    migrate_by_adding_a_field(Decision)
    try:
        assert Decision.objects.get().digest == decision.digest
    finally:
        with connection.schema_editor() as editor:
            column = models.IntegerField(default=1)
            column.set_attributes_from_name("weight")
            editor.remove_field(Decision, column)
        install_triggers("default")
    assert Decision.objects.get().digest == decision.digest


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("app", ["record", "jobs", "gates", "runs"])
def test_a_migrate_of_any_app_brings_back_what_was_dropped(app: str) -> None:
    lift()
    assert len(missing_triggers(connection)) == len(triggers_for(connection))
    call_command("migrate", app, stdout=StringIO())
    assert missing_triggers(connection) == []


MAKE = "CREATE TRIGGER record_decision_delete BEFORE DELETE ON record_decision "
HARMLESS = {
    "sqlite": [["DROP TRIGGER record_decision_delete", f"{MAKE} BEGIN SELECT 1; END"]],
    "postgresql": [
        ["ALTER TABLE record_decision DISABLE TRIGGER record_decision_delete"],
        ["ALTER TABLE record_decision ENABLE REPLICA TRIGGER record_decision_delete"],
        [
            "DROP TRIGGER record_decision_delete ON record_decision",
            f"{MAKE} FOR EACH ROW WHEN (OLD.number < 0) EXECUTE FUNCTION record_decision_delete()",
            "ALTER TABLE record_decision ENABLE ALWAYS TRIGGER record_decision_delete",
        ],
        [
            "CREATE OR REPLACE FUNCTION record_decision_delete() RETURNS trigger LANGUAGE plpgsql AS"
            " 'BEGIN RETURN OLD; END'"
        ],
    ],
}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("statements", HARMLESS[connection.vendor])
def test_a_trigger_that_was_made_harmless_counts_as_missing(statements: list[str]) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
    assert names(missing_triggers(connection)) == {"record_decision_delete"}
    assert names(install_triggers("default")) == {"record_decision_delete"}
    assert missing_triggers(connection) == []


@pytest.mark.django_db(transaction=True)
def test_flushing_between_tests_leaves_them_in_place(lab: Lab, people: People) -> None:
    """Commits a decision, which the flush after this test has to get past; the next test finds the triggers."""
    decide(lab, people.reviewer)


@pytest.mark.django_db
def test_after_a_flush_they_are_there_and_the_rows_are_gone() -> None:
    assert missing_triggers(connection) == []
    assert not Decision.objects.exists()


def test_a_kind_of_database_without_triggers_is_refused_in_words() -> None:
    class Oracle:
        vendor = "oracle"

    with pytest.raises(ConductorError, match="append-only on oracle"):
        triggers_for(Oracle())  # type: ignore[arg-type]
