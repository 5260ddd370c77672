"""Whether this installation is alive: the database, `conduct`, and the task workers."""

from datetime import datetime
from typing import Any

from django.utils import timezone

from jobs.models import ConductLease, Pulse

CONDUCT_SILENT_S = 60.0
PULSE_SILENT_S = 180.0


def check_health() -> dict[str, Any]:
    """Ages in seconds of the last sign of life; None where there never was one. Raises where the database fails."""
    conduct_age_s = _age_s(ConductLease.objects.values_list("beat_at", flat=True).order_by("-beat_at").first())
    pulse_age_s = _age_s(
        Pulse.objects.exclude(beat_at=None).values_list("beat_at", flat=True).order_by("-beat_at").first()
    )
    conduct = conduct_age_s is not None and conduct_age_s < CONDUCT_SILENT_S
    workers = pulse_age_s is not None and pulse_age_s < PULSE_SILENT_S
    return {
        "ok": conduct and workers,
        "database": True,
        "conduct": conduct,
        "conduct_age_s": conduct_age_s,
        "workers": workers,
        "pulse_age_s": pulse_age_s,
    }


def _age_s(at: datetime | None) -> float | None:
    return None if at is None else round((timezone.now() - at).total_seconds(), 1)
