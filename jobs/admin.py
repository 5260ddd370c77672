"""The admin of targets (set up here) and jobs (read here)."""

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest

from jobs.check import check_target
from jobs.forms import TargetForm
from jobs.models import ConductLease, Job, Pulse, Target
from jobs.services import request_cancel
from record.access import Ability
from record.backoffice import Editable, ReadOnly, ReasonedAction, short
from record.services import Author

MOST_CHECKED = 5


@admin.register(Target)
class TargetAdmin(Editable):
    form = TargetForm
    list_display = ["name", "lab", "kind", "host", "slots", "paused", "archived_at"]
    list_filter = ["kind", "paused", "lab"]
    list_select_related = ["lab"]
    autocomplete_fields = ["lab"]
    search_fields = ["name", "host"]
    actions = ["check_now"]

    @admin.action(description="Check: can jobs run there?")
    def check_now(self, request: HttpRequest, queryset: QuerySet[Target]) -> None:
        for target in queryset[:MOST_CHECKED]:
            for finding in check_target(target):
                level = messages.SUCCESS if finding.ok else messages.ERROR
                self.message_user(request, f"{target}: {finding.message}", level)


def _cancel(job: Job, author: Author, reason: str) -> str:
    if job.is_final:
        return f"has ended already ({job.get_state_display()})"
    request_cancel(job=job, author=author, reason=reason)
    return "cancelled" if job.is_final else "being cancelled"


@admin.register(Job)
class JobAdmin(ReadOnly):
    list_display = ["id", "name", "lab", "target", "state", "attempt", "planned_at", "ended_at", "exit_code", "why"]
    list_filter = ["state", "target", "purpose"]
    list_select_related = ["lab", "target"]
    search_fields = ["name", "token", "native_id", "subject_uuid", "root_uuid"]
    exclude = ["environment"]
    actions = [ReasonedAction("cancel", Ability.OPERATE, _cancel)]

    @admin.display(description="reason")
    def why(self, job: Job) -> str:
        return short(job.reason)


@admin.register(ConductLease)
class ConductLeaseAdmin(ReadOnly):
    list_display = ["name", "holder", "beat_at", "expires_at"]


@admin.register(Pulse)
class PulseAdmin(ReadOnly):
    list_display = ["cluster", "asked_at", "beat_at"]
