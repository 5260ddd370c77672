"""`manage.py export_record [--lab SLUG] [--since NUMBER]`: the record as JSON lines."""

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from record.export import export_record
from record.management.labs import chosen_labs


class Command(BaseCommand):
    help = "Write the record of decisions to stdout, one JSON object a line, in the order of the chains."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--lab", help="slug of the one lab to export (else all)")
        parser.add_argument("--since", type=int, default=0, metavar="NUMBER", help="only decisions after this number")

    def handle(self, *, lab: str | None = None, since: int = 0, **options: Any) -> None:
        for line in export_record(chosen_labs(lab), since=since):
            self.stdout.write(json.dumps(line, ensure_ascii=False, sort_keys=True))
