"""Every test here has its own stores."""

from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def _own_stores(settings: Any, tmp_path: Path) -> None:
    settings.EVIDENCE_ROOT = tmp_path / "evidence"
    settings.SNAPSHOT_ROOT = tmp_path / "snapshots"
    settings.PIPELINE_ROOTS = [tmp_path]
