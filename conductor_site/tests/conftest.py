"""Every test here has its own evidence store."""

from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def _own_store(settings: Any, tmp_path: Path) -> None:
    settings.EVIDENCE_ROOT = tmp_path / "evidence"
