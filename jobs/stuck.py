"""Targets at which work should start and does not: whoever should take it up is away, or can't."""

from datetime import timedelta

from django.db.models import Exists, F, OuterRef, QuerySet
from django.utils import timezone

from jobs.drain import draining
from jobs.models import Job, Target
from jobs.occupancy import with_occupancy

LONGEST_S = 120


def stuck_targets() -> QuerySet[Target]:
    """Targets with a free slot and a job that has waited for it for more than 120 s; none while nothing may start.

    A job waits from when it was planned, or let go again, whichever the row can tell: so a long pause that ends can
    show a target here until its next tick.
    """
    if draining():
        return Target.objects.none()
    since = timezone.now() - timedelta(seconds=LONGEST_S)
    waits = Job.objects.planned().filter(target=OuterRef("pk"), planned_at__lte=since).order_by()
    active = Target.objects.filter(paused=False, archived_at=None)
    return with_occupancy(active).filter(Exists(waits), away__lt=F("slots"))
