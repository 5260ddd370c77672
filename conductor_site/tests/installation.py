"""A whole installation in a folder of its own, with the real settings: for what must be tried from outside."""

import os
import subprocess
import sys
from pathlib import Path

from conductor_site.tests.stage import ROOT
from conductor_site.tests.stores import Store, new_store

# One of each thing, one person a role (password record.tests.factories.PASSWORD), and `root`, a superuser.
FILL = """
import sys, django; django.setup()
from pathlib import Path
from django.contrib.auth.models import User
from conductor_site.tests.world import make_world
from record.tests.factories import PASSWORD, make_lab, make_people
lab = make_lab()
make_world(lab, make_people(lab).operator, Path(sys.argv[1]))
User.objects.create_superuser("root", password=PASSWORD)
"""


class Installation:
    """Its data lie in `folder`/var; `environment` is what its processes are told. Without a `store`, an empty one."""

    def __init__(self, folder: Path, store: Store | None = None, **environment: str) -> None:
        self.folder = folder
        self.data = folder / "var"
        self.data.mkdir(parents=True, exist_ok=True)
        self.store = store or new_store(self.data)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("CONDUCTOR_")}
        self.environment = kept | {
            "CONDUCTOR_DATA": str(self.data),
            "CONDUCTOR_PIPELINES": str(folder),
            "DJANGO_SETTINGS_MODULE": "conductor_site.settings",
            "PYTHONPATH": str(ROOT),
        }
        self.environment |= self.store.environment | environment

    def manage(self, *arguments: str, fails: bool = False) -> str:
        """Run `manage.py` with these arguments; what it said, on stdout and stderr."""
        done = self._run(["manage.py", *arguments])
        assert (done.returncode != 0) == fails, done.stdout
        return done.stdout

    def python(self, code: str, *arguments: str) -> str:
        """Run this code, which calls django.setup() itself; what it printed."""
        done = self._run(["-c", code, *arguments])
        assert done.returncode == 0, done.stdout
        return done.stdout

    def fill(self) -> None:
        """A database with one of each thing."""
        self.manage("migrate", "-v", "0", "--skip-checks")
        self.python(FILL, str(self.folder))

    def _run(self, arguments: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=ROOT,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
        )
