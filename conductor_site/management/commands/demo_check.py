"""`manage.py demo_check`: the demo unattended; the last line is one JSON object."""

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from conductor_site.demo.check import Report, duplicate_executions, judge, measure
from conductor_site.demo.unattended import Passage, clear_away, see_run_through
from jobs.models import Job
from runs.models import Phase
from runs.pipeline.spec import spec_of
from runs.services.board import series_names
from runs.services.values import resolved_values
from runs.states import PhaseState


class Command(BaseCommand):
    help = "Drives the demo run through the HTTP API to its end and holds the results against the known truth."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--preset", default="", help="preset of the demo pipeline (tiny takes seconds)")

    def handle(self, *args: Any, preset: str, **options: Any) -> None:
        try:
            passage = see_run_through(name="demo", preset=preset, conf=None, say=self._say)
            report = self._report(passage)
        except RuntimeError as error:
            raise CommandError(f"The demo did not reach its end: {error}. Logs: {settings.DATA_DIR}/logs") from error
        self.stdout.write(report.line())
        if report.problems:
            raise CommandError("; ".join(report.problems) + f". Everything is kept in {settings.DATA_DIR}")
        clear_away()

    def _say(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()

    def _report(self, passage: Passage) -> Report:
        """What came of the run, held against the scene that was simulated."""
        run, keeper = passage.run, passage.keeper
        figures = measure(run, "evaluate")
        report = Report(
            phases_done=Phase.objects.filter(run=run, state=PhaseState.DONE).count(),
            gates_decided=keeper.decided,
            pictures=keeper.pictures,
            excluded=series_names(run).excluded,
            recall=figures["recall"],
            resolution_angstrom=figures["resolution_angstrom"],
            jobs_submitted=Job.objects.filter(root_uuid=run.uuid).count(),
            duplicates=duplicate_executions(run),
            seconds=round(passage.seconds, 1),
        )
        simulated = resolved_values(spec_of(run.snapshot), run, None)
        report.problems = judge(
            report,
            spoilt=simulated["SPOILT_SERIES"].split(),
            species=[species.label for species in run.species.all()],
            pixel_size_angstrom=float(simulated["PIXEL_SIZE_ANGSTROM"]),
        )
        return report
