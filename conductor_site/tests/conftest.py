"""A stage with a migrated database, for tests that start a real `conduct`."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conductor_site.tests.stage import ROOT, Stage


@pytest.fixture(scope="session")
def migrated_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty database with all migrations, to be copied."""
    folder = tmp_path_factory.mktemp("migrated")
    environment = os.environ | {"CONDUCTOR_DATA": str(folder), "DJANGO_SETTINGS_MODULE": "conductor_site.settings"}
    subprocess.run(
        [sys.executable, "manage.py", "migrate", "-v", "0", "--skip-checks"], cwd=ROOT, env=environment, check=True
    )
    return folder


@pytest.fixture
def stage(migrated_database: Path, tmp_path: Path) -> Iterator[Stage]:
    """See conductor_site.tests.stage.Stage."""
    (tmp_path / "work").mkdir()
    shutil.copytree(migrated_database, tmp_path / "var")
    stage = Stage(tmp_path)
    yield stage
    stage.close()
