"""Fixtures that the tests of every app share."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import TransactionTestCase

from record.models import Lab
from record.tests.factories import People, make_lab, make_people
from record.tests.harness import lifted

pytest_plugins = ["jobs.tests.cluster.fixtures", "record.tests.servers.fixtures"]


@pytest.fixture(autouse=True, scope="session")
def _flush_past_the_triggers() -> Iterator[None]:
    """Tests that commit are cleaned up by a flush, which the record refuses: lift its triggers around it."""

    def flush_unprotected(self: TransactionTestCase) -> None:
        with lifted():
            call_command("flush", verbosity=0, interactive=False, reset_sequences=False)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", flush_unprotected)
        yield


@pytest.fixture(autouse=True)
def _own_heads_file(settings: Any, tmp_path: Path) -> None:
    """Each test has its own file of chain heads, since each has its own database."""
    settings.RECORD_HEADS = tmp_path / "record_heads.jsonl"


@pytest.fixture
def lab(db: None) -> Lab:
    """A lab without members."""
    return make_lab()


@pytest.fixture
def people(lab: Lab) -> People:
    """One person a role in `lab` (viewer, operator, reviewer, administrator), and an outsider from another lab."""
    return make_people(lab)
