"""What the files of a run state as their pixel size, and the missing wedge of its tilt series, as a page."""

from dataclasses import dataclass, field

from jobs.shells import shell_for, within_roots
from record.errors import AdapterError
from runs.derive.audit import AuditRow, audit
from runs.derive.wedges import WedgeRow, wedges
from runs.models import Run
from runs.pipeline.spec import spec_of
from runs.services.values import resolved_values


@dataclass
class PixelsPage:
    """`lanes` are (species label, rows), the run's own under an empty label; `problem`: it could not be looked at."""

    lanes: list[tuple[str, list[AuditRow]]] = field(default_factory=list)
    wedges: list[WedgeRow] = field(default_factory=list)
    problem: str = ""


def pixels_page(run: Run) -> PixelsPage:
    """What lies in the run's folder now. Rows that species share are shown once, with the run."""
    spec = spec_of(run.snapshot)
    page = PixelsPage()
    try:
        work_dir, shell = within_roots(run.target, run.work_dir), shell_for(run.target)
        shared = audit(shell, work_dir, resolved_values(spec, run, None))
        page.lanes.append(("", shared))
        for species in run.species.all():
            rows = audit(shell, work_dir, resolved_values(spec, run, species))
            page.lanes.append((species.label, [row for row in rows if row not in shared]))
        page.wedges = wedges(shell, work_dir)
    except AdapterError as error:
        page.problem = error.message
    return page
