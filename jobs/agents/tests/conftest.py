"""Fixtures of the agents' tests: a local target, agents that are real programs, and jobs that really run."""

from pathlib import Path
from typing import Any

import pytest

from jobs.agents.tests.factories import Desk
from record.models import Lab
from record.tests.factories import People


@pytest.fixture
def desk(people: People, lab: Lab, tmp_path: Path, settings: Any) -> Desk:
    settings.AGENT_OUTPUT_ROOT = tmp_path / "outputs"
    settings.EVIDENCE_ROOT = tmp_path / "evidence"
    return Desk(people, lab, tmp_path)
