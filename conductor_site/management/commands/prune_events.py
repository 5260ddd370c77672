"""`manage.py prune_events`: forget the mechanical log after a while."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from conductor_site.management.horizon import add_horizon, horizon, removed
from record.pruning import prune_events


class Command(BaseCommand):
    help = (
        "Forget old events of the mechanical log (job planned, claimed, running ...). Decisions, what stands by them, "
        "and what people are told of (run finished, phase failed ...) are kept for good."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add_horizon(parser, days=365, of_what="events that happened longer ago than this")

    def handle(self, *, older_than_days: int, dry_run: bool, **options: Any) -> None:
        count = prune_events(before=horizon(older_than_days), dry_run=dry_run)
        self.stdout.write(f"{count} events of the mechanical log: {removed(dry_run)}.")
