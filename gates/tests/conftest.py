"""Every test at gates has the double protocol and keeper, fresh."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gates import protocols, subjects
from gates.tests.doubles import KEEPER, THRESHOLD, Keeper, Threshold


@pytest.fixture(autouse=True)
def _own_store(settings: Any, tmp_path: Path) -> None:
    settings.EVIDENCE_ROOT = tmp_path / "evidence"


@pytest.fixture(autouse=True)
def threshold() -> Iterator[Threshold]:
    protocols.register("threshold", "gates.tests.doubles:THRESHOLD")
    THRESHOLD.reset()
    yield THRESHOLD


@pytest.fixture(autouse=True)
def keeper() -> Iterator[Keeper]:
    subjects.register("thing", "gates.tests.doubles:KEEPER")
    KEEPER.reset()
    yield KEEPER
