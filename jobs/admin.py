"""The admin of targets (set up here) and jobs (read here)."""

from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.options import InlineModelAdmin
from django.db.models import QuerySet
from django.http import HttpRequest

from jobs.agents import admin as agents_admin  # noqa: F401  (registers itself)
from jobs.check import check_target
from jobs.forms import TargetForm
from jobs.lost import settle_lost
from jobs.models import Cluster, ClusterWatch, ConductLease, Job, Pulse, Target, TargetKind
from jobs.services import request_cancel
from record.access import Ability
from record.backoffice import Editable, ReadOnly, ReasonedAction, short
from record.services import Author

MOST_CHECKED = 5


class ClusterInline(admin.StackedInline):
    """How a target's cluster is reached and asked; only for targets of that kind."""

    model = Cluster
    can_delete = False
    fieldsets = [
        ("Cluster: how it is reached", {"fields": [
            "shell", ("ssh_host", "ssh_port"), "ssh_by_person", "ssh_config", "ssh_identity", "ssh_known_hosts",
            "python",
        ]}),
        ("Cluster: what jobs ask for", {"fields": [
            ("partition", "account", "qos"), ("gres", "constraint"), ("nodes", "memory"), "requeue",
        ]}),
        ("Cluster: how it is asked", {"fields": [
            "commands_folder", "conf_path", "cluster_name", ("poll_floor_s", "poll_ceiling_s"),
            ("look_up_wait_s", "agree_s", "lost_after_s"),
        ]}),
    ]  # fmt: skip


@admin.register(Target)
class TargetAdmin(Editable):
    form = TargetForm
    list_display = ["name", "lab", "kind", "host", "slots", "paused", "archived_at"]
    list_filter = ["kind", "paused", "lab"]
    list_select_related = ["lab"]
    autocomplete_fields = ["lab"]
    search_fields = ["name", "host"]
    actions = ["check_now"]

    def get_inlines(self, request: HttpRequest, obj: Target | None) -> list[type[InlineModelAdmin]]:
        return [ClusterInline] if obj is not None and Cluster.objects.filter(pk=obj.pk).exists() else []

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """A target that is a cluster has a row for it, which is filled in on the page that comes next."""
        super().save_related(request, form, formsets, change)
        if form.instance.kind == TargetKind.SLURM:
            Cluster.objects.get_or_create(target=form.instance)

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


def _declare_ended(job: Job, author: Author, reason: str) -> str:
    settle_lost(job=job, author=author, reason=reason)
    return "declared ended"


@admin.register(Job)
class JobAdmin(ReadOnly):
    list_display = ["id", "name", "lab", "target", "state", "attempt", "planned_at", "ended_at", "exit_code", "why"]
    list_filter = ["state", "target", "purpose"]
    list_select_related = ["lab", "target"]
    search_fields = ["name", "token", "native_id", "subject_uuid", "root_uuid"]
    exclude = ["environment"]
    actions = [
        ReasonedAction("cancel", Ability.OPERATE, _cancel),
        ReasonedAction("declare ended", Ability.OVERRIDE, _declare_ended),
    ]

    @admin.display(description="reason")
    def why(self, job: Job) -> str:
        return short(job.reason)


@admin.register(ConductLease)
class ConductLeaseAdmin(ReadOnly):
    list_display = ["name", "holder", "beat_at", "expires_at"]


@admin.register(Pulse)
class PulseAdmin(ReadOnly):
    list_display = ["cluster", "asked_at", "beat_at"]


@admin.register(ClusterWatch)
class ClusterWatchAdmin(ReadOnly):
    list_display = ["target", "answered_at", "poll_due_at", "failures", "closed_until", "problem"]
    list_select_related = ["target"]
