"""Fixtures that the tests of every app share."""

from pathlib import Path
from typing import Any

import pytest

from record.models import Lab
from record.tests.factories import People, make_lab, make_people


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
