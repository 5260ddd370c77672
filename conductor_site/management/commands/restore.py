"""`manage.py restore FOLDER`: put a backup back into an installation without a database."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from conductor_site.keeping.restore import restore_backup
from record.errors import ConductorError


class Command(BaseCommand):
    help = "Put a backup back. The database must be absent (SQLite) or empty (PostgreSQL). Nothing starts by itself."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("folder", type=Path, help="folder of one backup, like .../20261130T023000Z")

    def handle(self, *, folder: Path, **options: Any) -> None:
        try:
            restored = restore_backup(folder.resolve())
        except ConductorError as error:
            raise CommandError(error.message) from error
        self.stdout.write(
            f"The backup of {restored.manifest.taken_at} is back, with {restored.evidence} pieces of evidence. "
            "Nothing is started until `manage.py resume`."
        )
        if restored.kept_heads:
            self.stdout.write("The heads of the chains that were here are kept: they tell which decisions are lost.")
        if wrong := restored.lost + restored.faults:
            raise CommandError("It is back, but not whole:\n" + "\n".join(wrong[:20]))
        self.stdout.write("The record is whole.")
