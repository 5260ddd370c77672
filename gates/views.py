"""Gates as pages: the evidence, the form beside it, and what becomes of an answer."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.cache import patch_vary_headers
from django.views.decorators.http import require_POST, require_safe

from gates import services
from gates.advice import count_said
from gates.forms import AskForm, DelegateForm
from gates.models import Evidence, Gate, Suggestion
from gates.page import gate_page
from gates.store import read_evidence
from jobs.agents.models import Ask
from record.access import visible
from record.errors import BadInput, ConductorError
from record.forms import ReasonForm
from record.pages import STOP_POLLING, page_author, page_of
from record.services import Author

EVIDENCE_POLICY = "sandbox; default-src 'none'"


@require_safe
def detail(request: HttpRequest, pk: int) -> HttpResponse:
    """One gate (one iteration of it)."""
    return render(request, "gates/detail.html", gate_page(_gate(request, pk), request.user))


@require_POST
def decide(request: HttpRequest, pk: int) -> HttpResponse:
    """Answer the gate. Refused, the page comes back with what was typed and what stands against it."""
    gate = _gate(request, pk)
    if "preview" in request.POST:
        return render(request, "gates/detail.html", gate_page(gate, request.user, data=request.POST))
    try:
        answer = services.answer_gate(
            gate_id=gate.pk,
            author=page_author(request),
            verdict=request.POST.get("verdict", ""),
            answers=request.POST,
            reason=request.POST.get("reason", ""),
            seen_digest=request.POST.get("seen_digest", ""),
            seen_advice=request.POST.getlist("seen_advice"),
            override="override" in request.POST,
        )
    except ConductorError as refusal:
        return _again(request, pk, refusal, data=request.POST)
    messages.success(request, answer.message)
    return redirect("gates:detail", pk)


@require_POST
def consequence(request: HttpRequest, pk: int) -> HttpResponse:
    """What approving the posted answers would do, in words. Changes nothing."""
    page = gate_page(_gate(request, pk), request.user, data=request.POST)
    return render(request, "gates/_consequence.html", page)


@require_safe
def pulse(request: HttpRequest, pk: int) -> HttpResponse:
    """What an open page asks now and then: 204 while the gate is what the page shows, else a word about the change.

    A page that shows a form is never reloaded under its reader's hands; one that shows none is.
    """
    gate = _gate(request, pk)
    same = (request.GET.get("state"), request.GET.get("digest", "")) == (gate.state, gate.digest)
    if same and not gate.is_ended and (fresh := count_said(gate) - _number(request.GET.get("advice"))) > 0:
        return _advice_came(request, gate, fresh)
    if (request.GET.get("state"), request.GET.get("digest", "")) == (gate.state, gate.digest):
        response = HttpResponse(status=STOP_POLLING if gate.is_ended else 204)
    elif request.GET.get("form") == "1":
        response = render(request, "gates/_changed.html", {"gate": gate}, status=STOP_POLLING)
    else:
        response = HttpResponse(status=204, headers={"HX-Refresh": "true"})
    patch_vary_headers(response, ["HX-Request"])
    response.headers["Cache-Control"] = "no-store"
    return response


@require_POST
def ask_agents(request: HttpRequest, pk: int) -> HttpResponse:
    """Ask an agent about each item of the gate."""
    gate = _gate(request, pk)
    form = AskForm(request.POST, lab_id=gate.lab_id)
    if not form.is_valid():
        return _again(request, pk, BadInput("Choose an agent that can be asked."))
    agent = form.cleaned_data["agent"]
    try:
        asks = services.ask_at_gate(gate_id=pk, agent_id=agent.pk, author=page_author(request))
    except ConductorError as refusal:
        return _again(request, pk, refusal)
    messages.success(request, f"{agent.name} is asked about {len(asks)} items. The answers come in here as advice.")
    return redirect("gates:detail", pk)


@require_safe
def asks(request: HttpRequest, pk: int) -> HttpResponse:
    """Everything that agents were asked at a gate, and what they said unasked."""
    gate = _gate(request, pk)
    rows = Ask.objects.filter(subject_uuid=gate.uuid).defer("prompt", "result_schema", "attachments").order_by("-id")
    context = {
        "gate": gate,
        "page_obj": page_of(request, rows, size=100),
        "suggestions": list(gate.suggestions.all()),
        "seen": set(gate.decision.evidence.get("advice", {})) if gate.decision else None,
    }
    return render(request, "gates/asks.html", context)


@require_safe
def advice(request: HttpRequest, uuid: UUID) -> HttpResponse:
    """Where the advice is found that a decision names: a suggestion at its gate, else what an agent was asked."""
    suggestions = visible(Suggestion.objects.select_related("gate"), request.user, lab="gate__lab")
    if suggestion := suggestions.filter(uuid=uuid).first():
        return redirect(f"{reverse('gates:detail', args=[suggestion.gate_id])}#suggestion-{uuid}")
    return redirect("jobs:ask", get_object_or_404(visible(Ask.objects.all(), request.user), uuid=uuid).uuid)


@require_POST
def delegate(request: HttpRequest, pk: int) -> HttpResponse:
    """Hand the gate to somebody else."""
    gate = _gate(request, pk)
    form = DelegateForm(request.POST, lab_id=gate.lab_id, but=request.user.get_username())
    if not form.is_valid():
        page = gate_page(gate, request.user) | {"delegate_form": form, "opened": "delegate"}
        return render(request, "gates/detail.html", page, status=400)
    return _act(
        request,
        pk,
        lambda author: services.delegate_gate(gate_id=pk, author=author, **form.cleaned_data),
        opened="delegate",
        form=form,
        done=f"Handed to {form.cleaned_data['to_username']}.",
    )


@require_POST
def reopen(request: HttpRequest, pk: int) -> HttpResponse:
    """Ask again, in a new iteration; leads there."""
    _gate(request, pk)
    form = ReasonForm(request.POST, auto_id="id_reopen_%s")
    reason = form.cleaned_data["reason"] if form.is_valid() else ""
    try:
        fresh = services.reopen_gate(gate_id=pk, author=page_author(request), reason=reason)
    except ConductorError as refusal:
        return _again(request, pk, refusal, opened="reopen", form=form)
    messages.success(request, f"Reopened as iteration {fresh.iteration}.")
    return redirect("gates:detail", fresh.pk)


@require_POST
def withdraw(request: HttpRequest, pk: int) -> HttpResponse:
    """Take the question back."""
    _gate(request, pk)
    form = ReasonForm(request.POST, auto_id="id_withdraw_%s")
    reason = form.cleaned_data["reason"] if form.is_valid() else ""

    def do(author: Author) -> None:
        services.withdraw_gate(gate_id=pk, author=author, reason=reason)

    return _act(request, pk, do, opened="withdraw", form=form, done="Withdrawn.")


@require_POST
def prepare_again(request: HttpRequest, pk: int) -> HttpResponse:
    """Make the evidence anew, after that failed."""
    _gate(request, pk)
    return _act(
        request, pk, lambda author: services.retry_preparing(gate_id=pk, author=author), done="Being prepared again."
    )


@require_POST
def apply_again(request: HttpRequest, pk: int) -> HttpResponse:
    """Write the decision's effects back once more, after that failed."""
    _gate(request, pk)
    return _act(
        request, pk, lambda author: services.retry_applying(gate_id=pk, author=author), done="Being applied again."
    )


@require_safe
def evidence(request: HttpRequest, pk: int, uuid: UUID) -> HttpResponseBase:
    """One piece of evidence, to those who may see its gate; never as active content."""
    rows = visible(Evidence.objects.filter(gate_id=pk), request.user, lab="gate__lab")
    piece = get_object_or_404(rows, uuid=uuid)
    etag = f'"{piece.sha256}"'
    if request.headers.get("If-None-Match") == etag:
        return _sealed(HttpResponse(status=304), etag)
    kind = piece.media_type + ("; charset=utf-8" if piece.media_type.startswith("text/") else "")
    return _sealed(HttpResponse(read_evidence(piece), content_type=kind), etag)


def _sealed(response: HttpResponse, etag: str) -> HttpResponse:
    response.headers["ETag"] = etag
    response.headers["Cache-Control"] = "private, max-age=86400"
    response.headers["Content-Security-Policy"] = EVIDENCE_POLICY
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Content-Disposition"] = "inline"
    return response


def _advice_came(request: HttpRequest, gate: Gate, fresh: int) -> HttpResponse:
    """Agents have answered since the page was opened: a page with a form says so and stays, another shows them."""
    if request.GET.get("form") != "1":
        response = HttpResponse(status=204, headers={"HX-Refresh": "true"})
    else:
        response = render(request, "gates/_advice_came.html", {"gate": gate, "fresh": fresh})
    patch_vary_headers(response, ["HX-Request"])
    response.headers["Cache-Control"] = "no-store"
    return response


def _number(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else 0


def _gate(request: HttpRequest, pk: int) -> Gate:
    rows = Gate.objects.select_related("lab", "decision__statement", "delegated_to", "requested_by", "previous", "next")
    return get_object_or_404(visible(rows, request.user), pk=pk)


def _act(
    request: HttpRequest,
    pk: int,
    do: Callable[[Author], Any],
    *,
    done: str,
    opened: str = "",
    form: forms.Form | None = None,
) -> HttpResponse:
    """Do one thing to the gate and go back to it; refused, the page comes back with what was typed."""
    try:
        do(page_author(request))
    except ConductorError as refusal:
        return _again(request, pk, refusal, opened=opened, form=form)
    messages.success(request, done)
    return redirect("gates:detail", pk)


def _again(
    request: HttpRequest,
    pk: int,
    refusal: ConductorError,
    *,
    data: Any = None,
    opened: str = "",
    form: forms.Form | None = None,
) -> HttpResponse:
    """The gate as it is now, with the refusal on top and the input kept."""
    page = gate_page(_gate(request, pk), request.user, data=data, refusal=refusal)
    if form is not None:
        page |= {f"{opened}_form": form, "opened": opened}
    return render(request, "gates/detail.html", page, status=refusal.status)
