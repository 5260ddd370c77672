"""Fixtures of the runs' tests."""

from pathlib import Path
from typing import Any

import pytest

from record.models import Lab
from record.tests.factories import People
from runs.tests.factories import Bench


@pytest.fixture
def bench(people: People, lab: Lab, tmp_path: Path, settings: Any) -> Bench:
    """A target, a small pipeline and everything needed to drive runs of it."""
    settings.PIPELINE_ROOTS = [tmp_path]
    settings.SNAPSHOT_ROOT = tmp_path / "snapshots"
    settings.EVIDENCE_ROOT = tmp_path / "evidence"
    return Bench(people, lab, tmp_path)
