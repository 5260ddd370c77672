"""`manage.py backup FOLDER`: a backup of database, evidence, snapshots and record while all works on."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from conductor_site.keeping.backup import make_backup
from record.errors import ConductorError


class Command(BaseCommand):
    help = "Make a backup in a folder of backups, while the installation works on."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("folder", type=Path, help="folder of backups, on another disk; made where it is not there")
        parser.add_argument("--keep", type=int, default=0, help="remove all but the newest so many (default: none)")

    def handle(self, *, folder: Path, keep: int, **options: Any) -> None:
        if keep < 0:
            raise CommandError("--keep must be 0 (none is removed) or more.")
        try:
            made = make_backup(folder, keep=keep)
        except ConductorError as error:
            raise CommandError(error.message) from error
        self.stdout.write(
            f"{made.folder}: database, {made.evidence} pieces of evidence with {made.evidence_bytes / 2**20:.1f} MiB "
            f"({made.copied} newly copied)."
        )
        if made.removed:
            self.stdout.write(f"Removed: {', '.join(made.removed)}.")
        if made.lost:
            told = "\n".join(made.lost[:20])
            raise CommandError(f"Missing or altered in the installation itself, so not in the backup either:\n{told}")
