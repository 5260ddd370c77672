"""The admin of gates, ballots and evidence: read here; what is done to a gate is done by its services."""

from django.contrib import admin

from gates.models import Ballot, Evidence, Gate
from record.backoffice import ReadOnly, ReadOnlyInline, short


class BallotInline(ReadOnlyInline):
    model = Ballot
    fields = ["voter_name", "door", "verdict", "reason", "at"]


class EvidenceInline(ReadOnlyInline):
    model = Evidence
    fields = ["name", "kind", "title", "item", "media_type", "size_bytes", "sha256"]


@admin.register(Gate)
class GateAdmin(ReadOnly):
    list_display = ["id", "title", "context", "lab", "iteration", "state", "opened_at", "due_at", "trouble"]
    list_display_links = ["id", "title"]
    list_filter = ["state", "protocol", "lab"]
    list_select_related = ["lab"]
    raw_id_fields = ["requested_by", "delegated_to", "previous", "decision"]
    search_fields = ["title", "context", "key", "uuid", "subject_uuid", "root_uuid"]
    inlines = [EvidenceInline, BallotInline]

    @admin.display(description="error")
    def trouble(self, gate: Gate) -> str:
        return short(gate.error)


@admin.register(Ballot)
class BallotAdmin(ReadOnly):
    list_display = ["id", "gate", "voter_name", "door", "verdict", "at"]
    list_filter = ["verdict", "door"]
    list_select_related = ["gate"]
    search_fields = ["voter_name", "reason"]


@admin.register(Evidence)
class EvidenceAdmin(ReadOnly):
    list_display = ["name", "gate", "kind", "item", "media_type", "size_bytes"]
    list_filter = ["kind", "media_type"]
    list_select_related = ["gate"]
    search_fields = ["name", "title", "item", "sha256"]
