"""`manage.py clean_jobs`: clear away token folders and logs of the jobs of archived runs."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from conductor_site.management.horizon import add_horizon, horizon, removed
from jobs.cleaning import clean_jobs, told_left, unknown_folders
from jobs.models import Job, Target
from record.errors import ConductorError
from runs.models import Run


class Command(BaseCommand):
    help = (
        "Clear away the token folders of the jobs of archived runs on this machine and at its clusters, and those of "
        "their logs that bear the job's token. What the runs made stays. Folders that belong to no known job are told, "
        "and stay too; a target that can't be reached is told, and left for the next time."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add_horizon(parser, days=30, of_what="runs that were archived longer ago than this")

    def handle(self, *, older_than_days: int, dry_run: bool, **options: Any) -> None:
        archived = Run.objects.filter(archived_at__lt=horizon(older_than_days))
        swept = clean_jobs(Job.objects.filter(root_uuid__in=archived.values("uuid")), dry_run=dry_run)
        for folder in self._unknown(swept.left):
            self.stdout.write(f"{folder} belongs to no job that is known here; look at it, and remove it by hand.")
        for told in swept.left.values():
            self.stdout.write(told)
        self.stdout.write(
            f"{swept.folders} token folders and {swept.logs} logs with {swept.size_bytes / 2**20:.1f} MiB: "
            f"{removed(dry_run)}."
        )
        if swept.failed:
            raise CommandError("Some could not be removed:\n" + "\n".join(swept.failed))

    def _unknown(self, left: dict[int, str]) -> list[str]:
        """Folders of no known job; targets that could not be reached before are not tried again, others are added."""
        found: set[str] = set()
        for target in Target.objects.order_by("pk"):
            try:
                found |= set(unknown_folders(target) if target.pk not in left else [])
            except ConductorError as error:
                left[target.pk] = told_left(target, error)
        return sorted(found)
