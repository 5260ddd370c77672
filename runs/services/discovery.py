"""Tilt series as they turn up on disk."""

from collections.abc import Iterable

from record.services import record_event
from runs.models import Run, TiltSeries


def add_series(run: Run, names: Iterable[str]) -> list[str]:
    """Add the tilt series that the run doesn't know yet; their names. In the caller's transaction, run locked."""
    known = set(TiltSeries.objects.filter(run=run).values_list("name", flat=True))
    new = sorted(set(names) - known)
    if new:
        TiltSeries.objects.bulk_create([TiltSeries(run=run, name=name) for name in new])
        shown = ", ".join(new[:20]) + (" ..." if len(new) > 20 else "")
        record_event(
            lab_id=run.lab_id,
            kind="series.discover",
            subject=run.subject(),
            message=f"{run.name}: {len(new)} tilt series found: {shown}",
            data={"names": new},
        )
    return new
