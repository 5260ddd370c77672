"""Agents, and what each was asked and answered."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.db.models import Count, Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST, require_safe

from jobs.agents import store
from jobs.agents.backends import backend_for
from jobs.agents.forms import SwitchForm, TryForm, shown_configuration
from jobs.agents.models import Agent, Ask
from jobs.agents.services import switch_agent
from jobs.agents.states import OUTCOMES
from jobs.agents.trying import try_agent
from jobs.logs import clean
from record.access import Ability, can, require, visible
from record.errors import ConductorError
from record.pages import live_page, page_author, page_of

SHOWN_BYTES = 200_000
RAW_POLICY = "sandbox; default-src 'none'"


@require_safe
def agents(request: HttpRequest) -> HttpResponse:
    """Who can be asked, and how that has gone."""
    rows = visible(Agent.objects.select_related("lab", "target"), request.user).order_by("name", "id")
    return render(request, "jobs/agents.html", {"page_obj": page_of(request, rows, dress=_counted)})


@require_safe
def agent(request: HttpRequest, pk: int) -> HttpResponse:
    """One agent: how it is set up, and what it was asked last."""
    return _agent_page(request, _agent(request, pk))


@require_POST
def try_one(request: HttpRequest, pk: int) -> HttpResponse:
    """Ask an agent a question of one's own, as an administrator; leads to the ask."""
    row = _agent(request, pk)
    require(request.user, Ability.OVERRIDE, row.lab_id)
    form = TryForm(request.POST)
    if not form.is_valid():
        return _agent_page(request, row, status=400, try_form=form)
    try:
        ask = try_agent(agent=row, author=page_author(request), question=form.cleaned_data["question"])
    except ConductorError as refusal:
        return _agent_page(request, row, status=refusal.status, try_form=form, refusal=refusal)
    return redirect("jobs:ask", ask.uuid)


@require_POST
def switch(request: HttpRequest, pk: int) -> HttpResponse:
    """Switch an agent off or on, as an administrator."""
    row = _agent(request, pk)
    require(request.user, Ability.OVERRIDE, row.lab_id)
    form = SwitchForm(request.POST)
    reason = form.cleaned_data["reason"] if form.is_valid() else ""
    on = request.POST.get("on") == "1"
    switch_agent(agent_id=row.pk, author=page_author(request), on=on, reason=reason)
    messages.success(request, f"{row.name} is switched {'on' if on else 'off'}.")
    return redirect("jobs:agent", row.pk)


@require_safe
def ask(request: HttpRequest, uuid: UUID) -> HttpResponse:
    """One ask: what was put to whom, what came back, and how it was read."""
    row = _ask(request, uuid)
    raw, problem = _raw(row)
    context = {
        "ask": row,
        "meaning": OUTCOMES[row.state].meaning if row.is_ended else "",
        "again": row.is_ended and OUTCOMES[row.state].again,
        "raw": clean(raw[:SHOWN_BYTES]),
        "raw_more": len(raw) > SHOWN_BYTES,
        "problem": problem,
    }
    return live_page(request, page="jobs/ask.html", part="jobs/_ask.html", context=context, final=row.is_ended)


@require_safe
def ask_raw(request: HttpRequest, uuid: UUID) -> HttpResponse:
    """What the agent wrote, whole, as a text to keep; never as anything that a browser would run."""
    row = _ask(request, uuid)
    response = HttpResponse(
        store.read(row.raw_sha256) if row.raw_sha256 else b"", content_type="text/plain; charset=utf-8"
    )
    response.headers["Content-Security-Policy"] = RAW_POLICY
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Content-Disposition"] = f'attachment; filename="ask_{row.uuid}.txt"'
    return response


def _agent_page(request: HttpRequest, row: Agent, *, status: int = 200, **more: Any) -> HttpResponse:
    context = {
        "agent": row,
        "backend": backend_for(row.backend).label,
        "configuration": shown_configuration(row),
        "faults": backend_for(row.backend).faults(row.configuration),
        "asks": list(row.asks.defer("prompt", "result_schema", "attachments")[:50]),
        "may_manage": can(request.user, Ability.OVERRIDE, row.lab_id),
        "try_form": TryForm(auto_id="id_try_%s"),
        "switch_form": SwitchForm(auto_id="id_switch_%s"),
        **more,
    }
    return render(request, "jobs/agent.html", context, status=status)


def _counted(rows: Any) -> Any:
    return rows.annotate(
        asked=Count("asks"),
        answered=Count("asks", filter=Q(asks__state="ok")),
        live=Count("asks", filter=Q(asks__ended_at=None)),
    )


def _agent(request: HttpRequest, pk: int) -> Agent:
    return get_object_or_404(visible(Agent.objects.select_related("lab", "target"), request.user), pk=pk)


def _ask(request: HttpRequest, uuid: UUID) -> Ask:
    return get_object_or_404(visible(Ask.objects.select_related("lab", "agent", "job"), request.user), uuid=uuid)


def _raw(row: Ask) -> tuple[bytes, str]:
    """(what it wrote, why that can't be shown)."""
    try:
        return (store.read(row.raw_sha256) if row.raw_sha256 else b""), ""
    except ConductorError as error:
        return b"", error.message
