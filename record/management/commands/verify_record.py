"""`manage.py verify_record [--lab SLUG]`: is the record whole?"""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from record.management.labs import chosen_labs
from record.models import ChainHead
from record.verify import counted, verify_record


class Command(BaseCommand):
    help = "Walk the record of decisions and tell what doesn't hold; exits 1 where anything doesn't."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--lab", help="slug of the one lab to walk (else all)")

    def handle(self, *, lab: str | None = None, **options: Any) -> None:
        labs = chosen_labs(lab)
        faults = 0
        for fault in verify_record(labs):
            faults += 1
            self.stdout.write(str(fault))
        if faults:
            raise CommandError(f"The record does not hold: {faults} {'fault' if faults == 1 else 'faults'}.")
        counts = ChainHead.objects.filter(lab__in=labs).order_by("lab__slug").values_list("lab__slug", "count")
        for slug, count in counts:
            self.stdout.write(f"lab {slug}: {counted(count)}, all as recorded")
        self.stdout.write("The record is whole." if counts else "The record is empty.")
