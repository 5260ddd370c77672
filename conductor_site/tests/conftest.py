"""Every test here has its own stores; those that start a real `conduct` have a stage with a database of its own."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction

from conductor_site.tests.stage import Stage, make_template
from conductor_site.tests.stores import Store
from conductor_site.tests.world import World, make_world, stores_in
from record.tests.factories import make_lab, make_people


@pytest.fixture(autouse=True)
def _own_stores(settings: Any, tmp_path: Path) -> None:
    settings.EVIDENCE_ROOT = tmp_path / "evidence"
    settings.SNAPSHOT_ROOT = tmp_path / "snapshots"
    settings.AGENT_OUTPUT_ROOT = tmp_path / "agents"
    settings.PIPELINE_ROOTS = [tmp_path]


@pytest.fixture(scope="module")
def world(django_db_setup: None, django_db_blocker: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One world for all tests of a module, which take back what they write; in a transaction around theirs."""
    folder = tmp_path_factory.mktemp("world")
    with django_db_blocker.unblock(), stores_in(folder), transaction.atomic():
        lab = make_lab()
        yield make_world(lab, make_people(lab).operator, folder)
        transaction.set_rollback(True)


@pytest.fixture
def stores_of_the_world(world: World, db: None, _own_stores: None) -> Iterator[None]:
    """The stores in which the world's files lie, in the place of the test's own."""
    with stores_in(Path(world.pipeline.folder).parent):
        yield


@pytest.fixture(scope="session")
def migrated_database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """A database with one lab, one target and one planned job, to be copied."""
    store = make_template(tmp_path_factory.mktemp("migrated"))
    yield store
    store.drop()


@pytest.fixture
def stage(migrated_database: Store, tmp_path: Path) -> Iterator[Stage]:
    """See conductor_site.tests.stage.Stage."""
    (tmp_path / "work").mkdir()
    (tmp_path / "var").mkdir()
    stage = Stage(tmp_path, migrated_database.copy(tmp_path / "var"))
    yield stage
    stage.close()
    stage.store.drop()
