"""Targets, and the jobs that run on them with their logs."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST, require_safe

from jobs.check import check_target
from jobs.forms import PIECE_BYTES, LogRequest
from jobs.models import Job, Target
from jobs.occupancy import with_occupancy
from jobs.reading import show_log, show_tail
from jobs.services import request_cancel
from record.access import Ability, can, require, visible
from record.forms import ReasonForm
from record.models import Event
from record.pages import STOP_POLLING, live_page, page_author, page_of

TAIL_LINES = 30


@require_safe
def targets(request: HttpRequest) -> HttpResponse:
    """Where work can run, and how busy each place is."""
    rows = with_occupancy(Target.objects.filter(archived_at=None).select_related("lab")).order_by("name", "id")
    return render(request, "jobs/targets.html", {"page_obj": page_of(request, visible(rows, request.user))})


@require_safe
def target(request: HttpRequest, pk: int) -> HttpResponse:
    """One target: its limits, what runs on it, and what happened there."""
    return _target_page(request, pk)


def _target_page(request: HttpRequest, pk: int, **more: Any) -> HttpResponse:
    row = get_object_or_404(visible(with_occupancy(Target.objects.select_related("lab")), request.user), pk=pk)
    jobs = list(Job.objects.filter(target=row).live()[:50]) + list(
        Job.objects.filter(target=row).exclude(ended_at=None)[:20]
    )
    context = {
        "target": row,
        "jobs": jobs,
        "events": list(Event.objects.about(row)[:20]),
        "may_check": can(request.user, Ability.OPERATE, row.lab_id),
        **more,
    }
    return live_page(request, page="jobs/target.html", part="jobs/_target.html", context=context, every_s=10)


@require_POST
def check(request: HttpRequest, pk: int) -> HttpResponse:
    """Look now at everything that a job needs on a target; the findings, or for htmx only those."""
    row = get_object_or_404(visible(Target.objects.all(), request.user), pk=pk)
    require(request.user, Ability.OPERATE, row.lab_id)
    findings = check_target(row)
    if request.headers.get("HX-Request") == "true":
        return render(request, "jobs/_findings.html", {"findings": findings})
    return _target_page(request, pk, findings=findings)


@require_safe
def job(request: HttpRequest, pk: int) -> HttpResponse:
    """One job: what was run, where, how it went, and the ends of its logs."""
    row = _job(request, pk)
    context = {
        "job": row,
        "tails": [(stream, show_tail(row, stream, lines=TAIL_LINES)) for stream in ("out", "err")],
        "events": list(Event.objects.about(row)[:30]),
        "may_cancel": not row.is_final and can(request.user, Ability.OPERATE, row.lab_id),
        "cancel_form": ReasonForm(),
    }
    return live_page(request, page="jobs/job.html", part="jobs/_job.html", context=context, final=row.is_final)


@require_safe
def tail(request: HttpRequest, pk: int) -> HttpResponse:
    """The end of one of a job's logs, for a page that loads it apart since it lies at a cluster."""
    row = _job(request, pk)
    form = LogRequest(request.GET)
    stream = (form.cleaned_data["stream"] if form.is_valid() else "") or "out"
    piece = show_log(row, stream, lines=TAIL_LINES)
    context = {"job": row, "stream": stream, "piece": piece, "empty": "Nothing was written."}
    return render(
        request, "jobs/_tail.html", context, status=STOP_POLLING if row.is_final and not piece.problem else 200
    )


@require_safe
def log(request: HttpRequest, pk: int) -> HttpResponse:
    """A piece of one of a job's logs by byte range; else its end, followed while the job runs."""
    row = _job(request, pk)
    form = LogRequest(request.GET)
    asked = form.cleaned_data if form.is_valid() else {}
    start, stream = asked.get("start"), asked.get("stream") or "out"
    piece = show_log(row, stream, start=start, length=PIECE_BYTES)
    following = start is None and not row.is_final
    context = {"job": row, "stream": stream, "piece": piece, "following": following}
    return live_page(request, page="jobs/log.html", part="jobs/_log.html", context=context, final=not following)


@require_POST
def cancel(request: HttpRequest, pk: int) -> HttpResponse:
    """Ask for a job to be stopped."""
    row = _job(request, pk)
    require(request.user, Ability.OPERATE, row.lab_id)
    form = ReasonForm(request.POST)
    reason = form.cleaned_data["reason"] if form.is_valid() else ""
    request_cancel(job=row, author=page_author(request), reason=reason)
    messages.success(request, "Asked for. It counts as cancelled once no process of it is left.")
    return redirect("jobs:job", row.pk)


def _job(request: HttpRequest, pk: int) -> Job:
    return get_object_or_404(visible(Job.objects.select_related("target", "lab"), request.user), pk=pk)
