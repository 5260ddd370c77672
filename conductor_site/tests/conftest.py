"""Every test here has its own stores; those that start a real `conduct` have a stage with a database of its own."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conductor_site.tests.stage import PLAN, ROOT, Stage


@pytest.fixture(autouse=True)
def _own_stores(settings: Any, tmp_path: Path) -> None:
    settings.EVIDENCE_ROOT = tmp_path / "evidence"
    settings.SNAPSHOT_ROOT = tmp_path / "snapshots"
    settings.PIPELINE_ROOTS = [tmp_path]


@pytest.fixture(scope="session")
def migrated_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database with one lab, one target and one planned job, to be copied."""
    folder = tmp_path_factory.mktemp("migrated")
    environment = os.environ | {"CONDUCTOR_DATA": str(folder), "DJANGO_SETTINGS_MODULE": "conductor_site.settings"}
    subprocess.run(
        [sys.executable, "manage.py", "migrate", "-v", "0", "--skip-checks"], cwd=ROOT, env=environment, check=True
    )
    subprocess.run([sys.executable, "-c", PLAN], cwd=ROOT, env=environment | {"PYTHONPATH": str(ROOT)}, check=True)
    return folder


@pytest.fixture
def stage(migrated_database: Path, tmp_path: Path) -> Iterator[Stage]:
    """See conductor_site.tests.stage.Stage."""
    (tmp_path / "work").mkdir()
    shutil.copytree(migrated_database, tmp_path / "var")
    stage = Stage(tmp_path)
    yield stage
    stage.close()
