"""How busy targets are."""

from typing import Any

from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce

from jobs.models import Job, Target
from jobs.states import JobState


def with_occupancy(targets: QuerySet[Target]) -> QuerySet[Any]:
    """Each target with `away` and `planned`: how many of its jobs are so. Jobs that have ended are not read."""
    planned = Job.objects.live().filter(state=JobState.PLANNED)
    return targets.annotate(away=_count(Job.objects.away()), planned=_count(planned))


def _count(jobs: QuerySet[Job]) -> Coalesce:
    here = jobs.filter(target=OuterRef("pk")).order_by().values("target")
    return Coalesce(Subquery(here.annotate(count=Count("pk")).values("count")), 0)
