"""`manage.py resume`: let work start again after `manage.py drain` or a restored backup."""

from typing import Any

from django.core.management.base import BaseCommand

from jobs.drain import end_drain


class Command(BaseCommand):
    help = "Let work start again, after `manage.py drain` or a restored backup."

    def handle(self, **options: Any) -> None:
        self.stdout.write("Work goes on." if end_drain() else "Nothing was being drained.")
