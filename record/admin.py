"""The admin of labs, their members, decisions and events. The record is read here, never written."""

from collections.abc import Sequence
from typing import Any, cast

from django.contrib import admin
from django.contrib.auth.models import User
from django.http import HttpRequest

from record.access import Ability
from record.backoffice import Editable, ReadOnly, ReadOnlyInline, ReasonedAction, short
from record.members import set_roles
from record.models import (
    AgentAccount,
    ChainHead,
    Channel,
    Decision,
    Delivery,
    Door,
    Event,
    Lab,
    Membership,
    PersonalNotices,
    SenderTurn,
    Statement,
)
from record.notices.services import retry_delivery
from record.services import Author, strike_statement


class MembershipInline(ReadOnlyInline):
    model = Membership
    fields = ["user", "role"]


@admin.register(Lab)
class LabAdmin(Editable):
    list_display = ["name", "slug"]
    search_fields = ["name", "slug"]
    inlines = [MembershipInline]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        return ["slug"] if obj else []  # decisions name their lab by it

    def get_prepopulated_fields(self, request: HttpRequest, obj: Any = None) -> dict[str, Sequence[str]]:
        return {} if obj else {"slug": ("name",)}


def _remove(membership: Membership, author: Author, reason: str) -> str:
    lab, user = membership.lab, membership.user
    roles = set(Membership.objects.filter(lab=lab, user=user).values_list("role", flat=True))
    set_roles(lab=lab, user=user, roles=roles - {membership.role}, author=author, reason=reason)
    return "removed"


@admin.register(Membership)
class MembershipAdmin(ReadOnly):
    """Roles are added and taken away by the service, which records who did it and minds the last of a role."""

    list_display = ["user", "lab", "role"]
    list_filter = ["role", "lab"]
    list_select_related = ["user", "lab"]
    autocomplete_fields = ["user", "lab"]
    search_fields = ["user__username", "lab__name"]
    actions = [ReasonedAction("remove", None, _remove)]

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.is_active and request.user.is_superuser

    def save_model(self, request: HttpRequest, obj: Membership, form: Any, change: bool) -> None:
        roles = Membership.objects.filter(lab=obj.lab, user=obj.user).values_list("role", flat=True)
        author = Author.person(cast(User, request.user), Door.ADMIN)
        set_roles(lab=obj.lab, user=obj.user, roles={*roles, obj.role}, author=author)
        obj.pk = Membership.objects.get(lab=obj.lab, user=obj.user, role=obj.role).pk


@admin.register(AgentAccount)
class AgentAccountAdmin(ReadOnly):
    list_display = ["user", "lab", "made_by", "made_at"]
    list_select_related = ["user", "lab", "made_by"]
    search_fields = ["user__username"]


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


@admin.register(Channel)
class ChannelAdmin(ReadOnly):
    list_display = ["__str__", "kind", "shown_address", "enabled", "failures", "problem", "sent_at"]
    exclude = ["address"]  # for the lab's administrators, who may change it
    readonly_fields = ["shown_address"]
    list_filter = ["kind", "enabled", "lab"]
    list_select_related = ["lab", "owner"]
    search_fields = ["name", "owner__username"]


@admin.register(PersonalNotices)
class PersonalNoticesAdmin(ReadOnly):
    list_display = ["user", "digest", "quiet_from", "quiet_until", "time_zone", "remind_after_h"]
    list_select_related = ["user"]
    search_fields = ["user__username"]


def _send_again(delivery: Delivery, author: Author, reason: str) -> None:
    retry_delivery(delivery=delivery, author=author)


@admin.register(Delivery)
class DeliveryAdmin(ReadOnly):
    list_display = ["id", "at", "channel", "recipient", "state", "attempts", "doubtful", "said"]
    list_filter = ["state", "channel__kind"]
    list_select_related = ["channel__lab", "channel__owner"]
    raw_id_fields = ["event"]
    search_fields = ["uuid", "recipient", "remote_id"]
    actions = [
        ReasonedAction(
            "send again",
            Ability.OPERATE,
            _send_again,
            lab_of=lambda row: row.event.lab_id,
            done="sent again",
            asks=False,
        )
    ]

    @admin.display(description="error")
    def said(self, delivery: Delivery) -> str:
        return short(delivery.error, 120)


@admin.register(SenderTurn)
class SenderTurnAdmin(ReadOnly):
    list_display = ["holder", "until", "nudged_at"]
