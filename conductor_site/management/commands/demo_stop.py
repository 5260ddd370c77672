"""`manage.py demo_stop`: cancels the demo's jobs and waits until none is left."""

from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError
from django.db import OperationalError

from conductor_site.demo.resume import end_jobs, live_jobs
from conductor_site.demo.setup import REVIEWER, refuse_other_labs


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
        refuse_other_labs()
        try:
            count = end_jobs(user)
        except RuntimeError as error:
            raise CommandError(f"{error}.") from error
        self.stdout.write(f"{count} job(s) cancelled; the run is paused until the next `make demo`.")
