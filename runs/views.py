"""Runs as pages."""

from django.db.models import Count, Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from record.access import Ability, lab_ids, visible
from record.pages import page_of
from runs.forms import RunFilter
from runs.models import Run
from runs.states import PASSED, PhaseState

_PROGRESS = {
    "phases_total": Count("phases"),
    "phases_passed": Count("phases", filter=Q(phases__state__in=PASSED)),
    "phases_failed": Count("phases", filter=Q(phases__state=PhaseState.FAILED)),
    "phases_waiting": Count("phases", filter=Q(phases__state=PhaseState.CHECKPOINT)),
}


@require_safe
def runs(request: HttpRequest) -> HttpResponse:
    """The runs of the person's labs, newest first."""
    form = RunFilter(request.GET)
    rows = (
        Run.objects.select_related("lab", "target", "snapshot__pipeline", "created_by")
        .annotate(**_PROGRESS)
        .order_by("-id")
    )
    context = {
        "form": form,
        "page_obj": page_of(request, form.narrow(visible(rows, request.user))),
        "may_start": lab_ids(request.user, Ability.OPERATE).exists(),
    }
    return render(request, "runs/list.html", context)
