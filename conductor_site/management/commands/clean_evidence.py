"""`manage.py clean_evidence`: clear away evidence on which nothing was decided."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from conductor_site.management.horizon import add_horizon, horizon, removed
from gates.services.cleaning import clean_evidence


class Command(BaseCommand):
    help = (
        "Clear away the evidence of gates that ended without a decision, and files of the evidence store that belong "
        "to no gate. What a decision refers to, and what belongs to a gate in progress, is never touched."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add_horizon(parser, days=90, of_what="gates that ended, and files that were kept, longer ago than this")

    def handle(self, *, older_than_days: int, dry_run: bool, **options: Any) -> None:
        cleared = clean_evidence(before=horizon(older_than_days), dry_run=dry_run)
        self.stdout.write(
            f"{cleared.pieces} pieces of {cleared.gates} undecided gates, {cleared.files} files with "
            f"{cleared.size_bytes / 2**20:.1f} MiB: {removed(dry_run)}."
        )
