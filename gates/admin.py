"""The admin of gates, ballots and evidence: read here; what is done to a gate is done by its services."""

from django.contrib import admin

from gates import services
from gates.models import Ballot, Evidence, Gate, Suggestion
from record.access import Ability
from record.backoffice import ReadOnly, ReadOnlyInline, ReasonedAction, short
from record.services import Author


class BallotInline(ReadOnlyInline):
    model = Ballot
    fields = ["voter_name", "voter_kind", "door", "verdict", "reason", "at"]


class EvidenceInline(ReadOnlyInline):
    model = Evidence
    fields = ["name", "kind", "title", "item", "media_type", "size_bytes", "sha256"]


# The gates' services ask for more than to be seen; here that is the least.
def _reopen(gate: Gate, author: Author, reason: str) -> str:
    fresh = services.reopen_gate(gate_id=gate.pk, author=author, reason=reason)
    return f"reopened as iteration {fresh.iteration}"


def _withdraw(gate: Gate, author: Author, reason: str) -> None:
    services.withdraw_gate(gate_id=gate.pk, author=author, reason=reason)


def _retry_preparing(gate: Gate, author: Author, reason: str) -> None:
    services.retry_preparing(gate_id=gate.pk, author=author)


def _retry_applying(gate: Gate, author: Author, reason: str) -> None:
    services.retry_applying(gate_id=gate.pk, author=author)


@admin.register(Gate)
class GateAdmin(ReadOnly):
    list_display = ["id", "__str__", "iteration", "state", "lab", "opened_at", "due_at", "trouble"]
    list_display_links = ["id", "__str__"]
    list_filter = ["state", "protocol", "lab"]
    list_select_related = ["lab"]
    raw_id_fields = ["requested_by", "delegated_to", "previous", "decision"]
    search_fields = ["title", "context", "key", "uuid", "subject_uuid", "root_uuid"]
    inlines = [EvidenceInline, BallotInline]
    actions = [
        ReasonedAction("reopen", Ability.DECIDE, _reopen),
        ReasonedAction("withdraw", Ability.VIEW, _withdraw, done="withdrawn"),
        ReasonedAction("prepare again", Ability.VIEW, _retry_preparing, done="being prepared again", asks=False),
        ReasonedAction("apply again", Ability.VIEW, _retry_applying, done="being applied again", asks=False),
    ]

    @admin.display(description="error")
    def trouble(self, gate: Gate) -> str:
        return short(gate.error)


@admin.register(Ballot)
class BallotAdmin(ReadOnly):
    list_display = ["id", "gate", "voter_name", "voter_kind", "door", "verdict", "at"]
    list_filter = ["verdict", "door"]
    list_select_related = ["gate"]
    search_fields = ["voter_name", "reason"]


@admin.register(Suggestion)
class SuggestionAdmin(ReadOnly):
    list_display = ["id", "gate", "author_name", "verdict", "at"]
    list_filter = ["verdict"]
    list_select_related = ["gate"]
    search_fields = ["author_name", "reason"]


@admin.register(Evidence)
class EvidenceAdmin(ReadOnly):
    list_display = ["name", "gate", "kind", "item", "media_type", "size_bytes"]
    list_filter = ["kind", "media_type"]
    list_select_related = ["gate"]
    search_fields = ["name", "title", "item", "sha256"]
