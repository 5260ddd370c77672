"""How each target fares, as far as the database knows: no target is asked.

A cluster that can't be asked is not *stuck*: why is known, nothing here mends it, and it is asked again by itself.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from django.db.models import Exists, F, OuterRef, QuerySet
from django.utils import timezone

from jobs.drain import draining
from jobs.models import ClusterWatch, Job, Target
from jobs.occupancy import with_occupancy

LONGEST_S = 120


class Fare(StrEnum):
    """In what state a target is; of several that apply the first counts."""

    STUCK = "stuck"  # work should start, and nobody takes it up
    NEEDS_SIGN_IN = "needs_sign_in"  # a person has to open the connection
    UNREACHABLE = "unreachable"  # it could not be asked; left alone for a time that grows
    BUSY = "busy"  # it takes no more jobs just now
    PAUSED = "paused"
    WELL = "well"


@dataclass(frozen=True)
class Condition:
    """How one target fares.

    `failures`: how often in a row its cluster could not be asked. `rests_until`: nothing (or no job) is sent there
    till then.
    """

    target: Target
    fare: Fare
    failures: int = 0
    rests_until: datetime | None = None
    problem: str = ""


def conditions() -> list[Condition]:
    """How each target fares that is not archived, with `away` and `planned` (see jobs.occupancy). Two queries."""
    stuck = set(stuck_targets().values_list("pk", flat=True))
    targets = with_occupancy(Target.objects.filter(archived_at=None).select_related("lab", "watch").order_by("pk"))
    now = timezone.now()
    return [_condition(target, now, stuck=target.pk in stuck) for target in targets]


def _condition(target: Target, now: datetime, *, stuck: bool) -> Condition:
    watch: ClusterWatch = getattr(target, "watch", None) or ClusterWatch(target=target)
    later = [moment for moment in (watch.closed_until, watch.submit_after) if moment is not None and moment > now]
    applies = {
        Fare.STUCK: stuck,
        Fare.NEEDS_SIGN_IN: bool(watch.sign_in),
        Fare.UNREACHABLE: watch.failures > 0,
        Fare.BUSY: watch.submit_after in later,
        Fare.PAUSED: target.paused,
        Fare.WELL: True,
    }
    fare = next(fare for fare in Fare if applies[fare])
    return Condition(target, fare, watch.failures, max(later, default=None), watch.problem)


def stuck_targets() -> QuerySet[Target]:
    """Targets with a free slot and a job that has waited for it for more than 120 s: work should start there and does
    not, since whoever should take it up is away, or can't. None while nothing may start, nor a cluster that rests.

    A job waits from when it was planned, or let go again, whichever the row can tell: so a long pause that ends can
    show a target here until its next tick.
    """
    if draining():
        return Target.objects.none()
    since = timezone.now() - timedelta(seconds=LONGEST_S)
    waits = Job.objects.planned().filter(target=OuterRef("pk"), planned_at__lte=since).order_by()
    active = Target.objects.filter(paused=False, archived_at=None)
    asked = active.exclude(watch__failures__gt=0, watch__closed_until__gt=since).exclude(watch__submit_after__gt=since)
    return with_occupancy(asked).filter(Exists(waits), away__lt=F("slots"))
