"""`manage.py drain`: start nothing new, for an upgrade or a restart of the machine."""

import time
from collections.abc import Callable
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from jobs.drain import begin_drain, being_submitted, still_away

LOOK_S = 1.0


class Command(BaseCommand):
    help = "Start nothing new on any target; `manage.py resume` lets work go on. Jobs that run are left alone."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--reason", default="maintenance", help="told to people on the home page")
        parser.add_argument("--until-idle", action="store_true", help="wait until no job is running any more")
        parser.add_argument("--timeout-s", type=_seconds, default=120, help="how long to wait at most, seconds")

    def handle(self, *, reason: str, until_idle: bool, timeout_s: float, **options: Any) -> None:
        begin_drain(reason=reason)
        self.stdout.write("Nothing new is started from now on.")
        deadline = time.monotonic() + timeout_s
        self._wait(being_submitted, "being handed over", deadline)
        if until_idle:
            self._wait(still_away, "running", deadline)
        if left := still_away():
            self.stdout.write(f"{left} jobs run on, and outlive a restart of conduct (not one of their machine).")
        self.stdout.write("After the work: manage.py resume")

    def _wait(self, count: Callable[[], int], what: str, deadline: float) -> None:
        told = 0
        while left := count():
            if time.monotonic() > deadline:
                raise CommandError(
                    f"{left} jobs are still {what}. Nothing new is started; wait for them, or look at /targets/."
                )
            if left != told:
                self.stdout.write(f"{left} jobs are {what} ...")
                told = left
            time.sleep(LOOK_S)


def _seconds(text: str) -> float:
    """A time that comes to an end when it is waited for: nan never does."""
    seconds = float(text)
    if not seconds >= 0:
        raise ValueError(text)
    return seconds
