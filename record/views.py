"""The record as pages: what was decided, by whom, on what, and where it stands in the chain."""

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from record.access import visible
from record.forms import DecisionFilter
from record.models import Decision, Event
from record.pages import page_of


@require_safe
def decisions(request: HttpRequest) -> HttpResponse:
    """The decisions of the person's labs, newest first."""
    form = DecisionFilter(request.GET)
    rows = visible(Decision.objects.select_related("lab", "statement"), request.user)
    page = page_of(request, form.narrow(rows))
    return render(request, "record/decisions.html", {"form": form, "page_obj": page})


@require_safe
def decision(request: HttpRequest, uuid: UUID) -> HttpResponse:
    """One decision with its statement, evidence, chain links, and what it set off."""
    rows = Decision.objects.select_related("lab", "statement__struck_by", "supersedes", "gate")
    row = get_object_or_404(visible(rows, request.user), uuid=uuid)
    gate = getattr(row, "gate", None)  # gates are above the record: reached by the row, never by import
    context = {
        "decision": row,
        "gate": gate,
        "pictures": list(gate.evidence.filter(kind__in=["image", "curve"])[:24]) if gate else [],
        "later": list(row.superseded_by.all()),
        "events": list(Event.objects.filter(decision=row).order_by("id")[:100]),
        "shown": shown_evidence(row),
        "advice": sorted(row.evidence.get("advice", {}).items()),
        "changes": config_changes(row),
    }
    return render(request, "record/decision.html", context)


def shown_evidence(decision: Decision) -> list[tuple[str, str]]:
    """(name, SHA-256) of each piece of evidence that was shown, in the order of showing."""
    items = decision.evidence.get("items", {})
    return sorted(items.items()) if isinstance(items, dict) else []


def config_changes(decision: Decision) -> list[tuple[str, object, object]]:
    """(name, value before, value after) of what the decision changed; None where there was or is no value."""
    before, after = decision.config_before, decision.config_after
    return [(key, before.get(key), after.get(key)) for key in sorted(before.keys() | after.keys())]
