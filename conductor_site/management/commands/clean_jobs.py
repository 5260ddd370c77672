"""`manage.py clean_jobs`: clear away token folders and logs of the jobs of archived runs."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from conductor_site.management.horizon import add_horizon, horizon, removed
from jobs.cleaning import clean_jobs, unknown_folders
from jobs.models import Job, Target
from runs.models import Run


class Command(BaseCommand):
    help = (
        "Clear away the token folders of the jobs of archived runs on this machine, and those of their logs that bear "
        "the job's token. What the runs made stays. Folders that belong to no known job are told, and stay too."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add_horizon(parser, days=30, of_what="runs that were archived longer ago than this")

    def handle(self, *, older_than_days: int, dry_run: bool, **options: Any) -> None:
        archived = Run.objects.filter(archived_at__lt=horizon(older_than_days))
        swept = clean_jobs(Job.objects.filter(root_uuid__in=archived.values("uuid")), dry_run=dry_run)
        for folder in unknown_folders(Target.objects.all()):
            self.stdout.write(f"{folder} belongs to no job that is known here; look at it, and remove it by hand.")
        self.stdout.write(
            f"{swept.folders} token folders and {swept.logs} logs with {swept.size_bytes / 2**20:.1f} MiB: "
            f"{removed(dry_run)}."
        )
        if swept.failed:
            raise CommandError("Some could not be removed:\n" + "\n".join(swept.failed))
