"""Whether this installation is alive: the database, `conduct`, the task workers, and the targets."""

from collections import Counter
from datetime import datetime
from typing import Any

from django.utils import timezone

from jobs.conditions import Condition, Fare, conditions
from jobs.drain import draining
from jobs.models import ConductLease, Pulse

CONDUCT_SILENT_S = 60.0
PULSE_SILENT_S = 180.0


def check_health(*, named: bool = False) -> dict[str, Any]:
    """Ages in seconds of the last sign of life; None where there never was one. Raises where the database fails.

    Anybody may ask: so targets are only counted by how they fare, unless they are to be `named`. A cluster that can't
    be reached makes nothing here ill: no restart would mend it.
    """
    conduct_s, pulse_s = conduct_age_s(), pulse_age_s()
    conduct = conduct_s is not None and conduct_s < CONDUCT_SILENT_S
    workers = pulse_s is not None and pulse_s < PULSE_SILENT_S
    targets = conditions()
    fares = Counter(condition.fare for condition in targets)
    stuck = fares[Fare.STUCK]
    health = {
        "ok": conduct and workers and not stuck,
        "database": True,
        "conduct": conduct,
        "conduct_age_s": conduct_s,
        "workers": workers,
        "pulse_age_s": pulse_s,
        "targets": not stuck,
        "targets_stuck": stuck,
        "targets_by_state": dict(sorted(fares.items())),
        "draining": draining() is not None,
    }
    return health | ({"each_target": [_told(condition) for condition in targets]} if named else {})


def _told(condition: Condition) -> dict[str, Any]:
    return {
        "lab": condition.target.lab.slug,
        "target": condition.target.name,
        "state": condition.fare,
        "failures": condition.failures,
        "rests_until": condition.rests_until,
        "problem": condition.problem,
    }


def conduct_age_s() -> float | None:
    """Seconds since a `conduct` last renewed the lease to do what is due."""
    return age_s(ConductLease.objects.values_list("beat_at", flat=True).order_by("-beat_at").first())


def pulse_age_s() -> float | None:
    """Seconds since a worker of any task cluster last took its pulse."""
    beats = Pulse.objects.exclude(beat_at=None).values_list("beat_at", flat=True)
    return age_s(beats.order_by("-beat_at").first())


def age_s(at: datetime | None) -> float | None:
    return None if at is None else round((timezone.now() - at).total_seconds(), 1)
