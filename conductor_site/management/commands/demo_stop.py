"""`manage.py demo_stop`: cancels the demo's jobs and waits until none is left."""

import subprocess
import sys
import time
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError
from django.db import OperationalError

from conductor_site.demo.resume import live_jobs, stop_jobs
from conductor_site.demo.setup import REVIEWER

PATIENCE_S = 60


class Command(BaseCommand):
    help = "Cancels the demo's jobs that still run; the demo run is paused and goes on with the next `make demo`."

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            user = User.objects.filter(username=REVIEWER).first()
        except OperationalError:
            user = None
        if user is None or not live_jobs().exists():
            self.stdout.write("No job of the demo is running.")
            return
        count = stop_jobs(user)
        # Jobs are killed by `conduct`. Where none runs, one does it now; where one runs, this one leaves it the lead.
        conduct = subprocess.Popen([sys.executable, "manage.py", "conduct"], cwd=settings.BASE_DIR)  # noqa: S603
        try:
            self._wait()
        finally:
            conduct.terminate()
            conduct.wait()
        self.stdout.write(f"{count} job(s) cancelled; the run is paused until the next `make demo`.")

    def _wait(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while live_jobs().exists():
            if time.monotonic() > deadline:
                names = ", ".join(job.name for job in live_jobs())
                raise CommandError(f"Not cancelled after {PATIENCE_S} s: {names}. Look at their pages for the reason.")
            time.sleep(0.2)
