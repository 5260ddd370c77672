"""What draws and reads volumes is imported where it is used, and what serves pages where pages are served."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DRAWS = ["matplotlib", "scipy", "numpy", "mrcfile", "starfile", "pandas", "PIL"]
PAGES = ["runs.admin", "runs.views", "rest_framework.views", "drf_spectacular.openapi", "urllib3", "jsonschema", "yaml"]
CONDUCT = "import conductor_site.conduct.loop, conductor_site.conduct.due; conductor_site.conduct.due.DueTable()"
TASKS = "import conductor_site.tasks"
WEB = "import conductor_site.urls"


@pytest.mark.parametrize(
    ("process", "heavy"),
    [(WEB, DRAWS), (CONDUCT, DRAWS + PAGES), (TASKS, DRAWS + PAGES)],
    ids=["web", "conduct", "tasks"],
)
def test_no_process_imports_what_others_need(tmp_path: Path, process: str, heavy: list[str]) -> None:
    environment = os.environ | {"DJANGO_SETTINGS_MODULE": "conductor_site.settings", "CONDUCTOR_DATA": str(tmp_path)}
    script = f"import json, sys, django; django.setup(); {process}; print(json.dumps([*sys.modules]))"

    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert sorted(set(heavy) & set(json.loads(done.stdout))) == []
