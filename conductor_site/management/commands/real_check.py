"""`manage.py real_check`: a real tilt series through alignment, reconstruction and their gate, cross-validated."""

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from conductor_site.demo.check import measure
from conductor_site.demo.real import CONF, SERIES, data_folder, hold_against_limits, report_line
from conductor_site.demo.unattended import clear_away, see_run_through


class Command(BaseCommand):
    help = (
        "Aligns and reconstructs a real tilt series through Conductor and cross-validates it; last line: JSON figures."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        folder = data_folder()
        stack = {"STACK_MRC": str(folder / "HAADF.mrc"), "STACK_RAWTLT": str(folder / "HAADF.rawtlt")}
        try:
            passage = see_run_through(name="haadf", preset="", conf=CONF | stack, say=self.stdout.write)
            figures = hold_against_limits(measure(passage.run, "crossvalidate", "--series", SERIES), passage)
        except RuntimeError as error:
            raise CommandError(f"The check did not reach its end: {error}. Logs: {settings.DATA_DIR}/logs") from error
        self.stdout.write(report_line(figures))
        if missed := [figure.name for figure in figures if not figure.ok]:
            raise CommandError(f"Not held: {', '.join(missed)}. Everything is kept in {settings.DATA_DIR}")
        clear_away()
