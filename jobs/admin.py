"""The admin of targets (set up here) and jobs (read here)."""

import os
import re
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest

from jobs.check import check_target
from jobs.models import ConductLease, Job, Pulse, Target
from jobs.services import request_cancel
from jobs.shells import FORBIDDEN
from record.access import Ability
from record.backoffice import Editable, ReadOnly, ReasonedAction, short
from record.services import Author

MOST_CHECKED = 5
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


class Lines(forms.CharField):
    """A list of texts, one a line; empty lines are left out."""

    widget = forms.Textarea(attrs={"rows": 4, "cols": 80})

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(value) if isinstance(value, list) else value

    def to_python(self, value: Any) -> Any:
        return [line.strip() for line in (super().to_python(value) or "").splitlines() if line.strip()]

    def has_changed(self, initial: Any, data: Any) -> bool:
        return (initial or []) != self.to_python(data)


def check_folder(path: str, *, what: str) -> str:
    """An absolute, existing folder without characters that a shell would take amiss; ValidationError in words else."""
    if not os.path.isabs(path):
        raise forms.ValidationError(f"{what} {path!r} is not absolute: begin it with /.")
    if found := FORBIDDEN.search(path):
        raise forms.ValidationError(f"{what} {path!r} holds {found.group()!r}, which scripts would take amiss.")
    if os.path.normpath(path) != path.rstrip("/") or path == "/":
        raise forms.ValidationError(f"{what} {path!r}: give a folder below /, without '..', '.' or double slashes.")
    if not os.path.isdir(path):
        raise forms.ValidationError(f"{what} {path!r} is not an existing folder on this machine.")
    return path.rstrip("/")


class TargetForm(forms.ModelForm):
    roots = Lines(help_text="Absolute folders that runs may write in, one a line. They must exist.")
    environment_allow = Lines(
        required=False, help_text="Names of the server's own variables that jobs may see, one a line."
    )

    class Meta:
        model = Target
        fields = [
            "lab", "name", "kind", "host", "roots", "job_folder", "slots", "default_time_limit_s", "max_time_limit_s",
            "max_memory_mib", "environment_lines", "environment_allow", "paused", "archived_at",
        ]  # fmt: skip

    def clean_roots(self) -> list[str]:
        return list(dict.fromkeys(check_folder(path, what="The root") for path in self.cleaned_data["roots"]))

    def clean_job_folder(self) -> str:
        return check_folder(self.cleaned_data["job_folder"], what="The job folder")

    def clean_environment_allow(self) -> list[str]:
        for name in self.cleaned_data["environment_allow"]:
            if not VARIABLE.match(name):
                raise forms.ValidationError(f"{name!r} is not the name of a variable.")
        return self.cleaned_data["environment_allow"]

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        default, longest = cleaned.get("default_time_limit_s"), cleaned.get("max_time_limit_s")
        if default and longest and default > longest:
            self.add_error("default_time_limit_s", f"It is above the longest, {longest} s.")
        return cleaned


@admin.register(Target)
class TargetAdmin(Editable):
    form = TargetForm
    list_display = ["name", "lab", "kind", "host", "slots", "paused", "archived_at"]
    list_filter = ["kind", "paused", "lab"]
    list_select_related = ["lab"]
    raw_id_fields = ["lab"]
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
