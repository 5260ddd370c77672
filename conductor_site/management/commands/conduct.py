"""Run the jobs of this host, do what is due, and keep the task cluster going."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from conductor_site.conduct.cluster import TaskCluster
from conductor_site.conduct.loop import Conduct
from conductor_site.database import require_well_placed_database
from conductor_site.keeping.restore import require_whole_restore
from record.errors import ConductorError
from record.triggers import require_triggers


class Command(BaseCommand):
    help = __doc__
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--without-cluster", action="store_true", help="leave the task cluster to somebody else")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            require_well_placed_database()
            require_whole_restore()
            require_triggers()
            Conduct(cluster=None if options["without_cluster"] else TaskCluster()).run()
        except ConductorError as error:
            raise CommandError(error.message) from error
