"""Targets and what runs on them."""

from django.db.models import Count, Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from jobs.models import Job, Target
from jobs.states import AWAY, JobState
from record.access import visible
from record.models import Event
from record.pages import live_page, page_of

_OCCUPANCY = {
    "away": Count("jobs", filter=Q(jobs__state__in=AWAY)),
    "planned": Count("jobs", filter=Q(jobs__state=JobState.PLANNED)),
}


@require_safe
def targets(request: HttpRequest) -> HttpResponse:
    """Where work can run, and how busy each place is."""
    rows = Target.objects.filter(archived_at=None).select_related("lab").annotate(**_OCCUPANCY).order_by("name", "id")
    return render(request, "jobs/targets.html", {"page_obj": page_of(request, visible(rows, request.user))})


@require_safe
def target(request: HttpRequest, pk: int) -> HttpResponse:
    """One target: its limits, what runs on it, and what happened there."""
    row = get_object_or_404(visible(Target.objects.select_related("lab").annotate(**_OCCUPANCY), request.user), pk=pk)
    jobs = list(Job.objects.filter(target=row).live()[:50]) + list(
        Job.objects.filter(target=row).exclude(ended_at=None).order_by("-ended_at")[:20]
    )
    context = {"target": row, "jobs": jobs, "events": list(Event.objects.about(row)[:20])}
    return live_page(request, page="jobs/target.html", part="jobs/_target.html", context=context, every_s=10)
