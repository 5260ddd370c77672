"""The admin of labs, their members, decisions and events. The record is read here, never written."""

from collections.abc import Sequence
from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from record.access import Ability
from record.backoffice import Editable, ReadOnly, ReasonedAction, short
from record.models import ChainHead, Decision, Event, Lab, Membership, Statement
from record.services import Author, strike_statement


class MembershipInline(admin.TabularInline):
    model = Membership
    extra = 0
    autocomplete_fields = ["user"]


@admin.register(Lab)
class LabAdmin(Editable):
    list_display = ["name", "slug"]
    search_fields = ["name", "slug"]
    inlines = [MembershipInline]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        return ["slug"] if obj else []  # decisions name their lab by it

    def get_prepopulated_fields(self, request: HttpRequest, obj: Any = None) -> dict[str, Sequence[str]]:
        return {} if obj else {"slug": ("name",)}


@admin.register(Membership)
class MembershipAdmin(Editable):
    list_display = ["user", "lab", "role"]
    list_filter = ["role", "lab"]
    list_select_related = ["user", "lab"]
    autocomplete_fields = ["user", "lab"]
    search_fields = ["user__username", "lab__name"]

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.is_active and request.user.is_superuser


@admin.register(ChainHead)
class ChainHeadAdmin(ReadOnly):
    list_display = ["lab", "count", "digest"]
    list_select_related = ["lab"]


def _strike(decision: Decision, author: Author, reason: str) -> str:
    tombstone = strike_statement(decision=decision, author=author, reason=reason)
    return f"what was written is struck, by decision {tombstone.number}"


@admin.register(Decision)
class DecisionAdmin(ReadOnly):
    list_display = ["number", "lab", "at", "verdict", "subject", "actor_name", "actor_kind", "door", "override"]
    list_display_links = ["number", "verdict"]
    list_filter = ["actor_kind", "door", "override", "lab"]
    list_select_related = ["lab"]
    search_fields = ["subject_label", "actor_name", "verdict", "uuid"]
    date_hierarchy = "at"
    actions = [ReasonedAction("strike what was written", Ability.OVERRIDE, _strike)]

    @admin.display(description="on")
    def subject(self, decision: Decision) -> str:
        return short(decision.subject_label)


@admin.register(Statement)
class StatementAdmin(ReadOnly):
    list_display = ["decision", "beginning", "struck_by"]
    list_select_related = ["decision", "struck_by"]
    search_fields = ["reason"]
    exclude = ["salt"]

    @admin.display(description="reason")
    def beginning(self, statement: Statement) -> str:
        return "(struck)" if statement.struck_by_id else short(statement.reason)


@admin.register(Event)
class EventAdmin(ReadOnly):
    list_display = ["id", "at", "lab", "kind", "said"]
    list_filter = ["kind", "lab"]
    list_select_related = ["lab"]
    search_fields = ["message", "subject_uuid", "root_uuid"]
    raw_id_fields = ["decision"]

    @admin.display(description="message")
    def said(self, event: Event) -> str:
        return short(event.message, 120)
