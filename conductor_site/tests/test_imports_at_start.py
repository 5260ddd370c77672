"""What draws and reads volumes is imported where it is used: the site starts without it."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ["matplotlib", "scipy", "numpy", "mrcfile", "starfile", "pandas", "PIL"]
START = f"""
import json, sys, django; django.setup()
import conductor_site.urls, conductor_site.conduct.loop, conductor_site.tasks
print(json.dumps(sorted(set({HEAVY}) & set(sys.modules))))
"""


def test_the_site_imports_nothing_that_draws(tmp_path: Path) -> None:
    environment = os.environ | {"DJANGO_SETTINGS_MODULE": "conductor_site.settings", "CONDUCTOR_DATA": str(tmp_path)}

    done = subprocess.run([sys.executable, "-c", START], cwd=ROOT, env=environment, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == []
