"""The admin of pipelines (set up here), runs and their parts (read here; acted on by services)."""

from collections.abc import Callable
from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from record.access import Ability
from record.backoffice import Editable, ReadOnly, ReadOnlyInline, ReasonedAction, short
from record.errors import ConductorError
from record.services import Author
from runs.models import Phase, Pipeline, Run, Snapshot, Species, TiltSeries
from runs.pipeline.faults import PipelineFaults
from runs.pipeline.load import load_pipeline
from runs.pipeline.snapshot import check_pipeline_folder
from runs.services.control import archive_run, cancel_run, pause_run, resume_run


class PipelineForm(forms.ModelForm):
    """A pipeline is taken up only where runs can be made of it: its manifest, overlay and scripts are read."""

    class Meta:
        model = Pipeline
        fields = ["lab", "name", "folder", "archived_at"]

    def clean_folder(self) -> str:
        folder: str = self.cleaned_data["folder"]
        try:
            load_pipeline(check_pipeline_folder(folder))
        except PipelineFaults as refusal:
            raise forms.ValidationError([str(fault) for fault in refusal.faults]) from refusal
        except ConductorError as refusal:
            raise forms.ValidationError(refusal.message) from refusal
        return folder


@admin.register(Pipeline)
class PipelineAdmin(Editable):
    form = PipelineForm
    list_display = ["name", "lab", "folder", "archived_at"]
    list_filter = ["lab"]
    list_select_related = ["lab"]
    autocomplete_fields = ["lab"]
    search_fields = ["name", "folder"]


@admin.register(Snapshot)
class SnapshotAdmin(ReadOnly):
    list_display = ["pipeline", "digest", "taken_at"]
    list_select_related = ["pipeline"]
    search_fields = ["pipeline__name", "digest"]


class SpeciesInline(ReadOnlyInline):
    model = Species
    fields = ["label", "conf", "position"]
    show_change_link = False


class TiltSeriesInline(ReadOnlyInline):
    model = TiltSeries
    fields = ["name", "verdict", "note", "excluded_by"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).select_related("excluded_by")


class PhaseInline(ReadOnlyInline):
    model = Phase
    fields = ["key", "species", "state", "completion", "items_done", "items_total", "attempt", "reason"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).select_related("species")


def _on_run(service: Callable[..., Any]) -> Callable[[Run, Author, str], None]:
    def carry_out(run: Run, author: Author, reason: str) -> None:
        service(run=run, author=author, reason=reason)

    return carry_out


@admin.register(Run)
class RunAdmin(ReadOnly):
    list_display = ["id", "name", "lab", "pipeline", "target", "state", "created_by", "created_at", "archived_at"]
    list_display_links = ["id", "name"]
    list_filter = ["state", "lab", "target"]
    list_select_related = ["lab", "snapshot__pipeline", "target", "created_by"]
    search_fields = ["name", "work_dir", "uuid"]
    date_hierarchy = "created_at"
    inlines = [SpeciesInline, PhaseInline, TiltSeriesInline]
    actions = [
        ReasonedAction("pause", Ability.OPERATE, _on_run(pause_run), done="paused"),
        ReasonedAction("resume", Ability.OPERATE, _on_run(resume_run), done="resumed"),
        ReasonedAction("cancel", Ability.OPERATE, _on_run(cancel_run), done="cancelled"),
        ReasonedAction("archive", Ability.OPERATE, _on_run(archive_run), done="archived"),
    ]

    @admin.display(description="pipeline")
    def pipeline(self, run: Run) -> str:
        return run.snapshot.pipeline.name


@admin.register(Species)
class SpeciesAdmin(ReadOnly):
    list_display = ["label", "run", "position"]
    list_select_related = ["run"]
    search_fields = ["label", "run__name"]


@admin.register(TiltSeries)
class TiltSeriesAdmin(ReadOnly):
    list_display = ["name", "run", "verdict", "note", "excluded_by"]
    list_select_related = ["run", "excluded_by"]
    list_filter = ["verdict"]
    search_fields = ["name", "run__name", "uuid"]


@admin.register(Phase)
class PhaseAdmin(ReadOnly):
    list_display = ["id", "run", "key", "species", "state", "completion", "attempt", "stale_since", "why"]
    list_display_links = ["id", "key"]
    list_filter = ["state", "completion", "key"]
    list_select_related = ["run", "species"]
    search_fields = ["key", "run__name", "uuid"]

    @admin.display(description="reason")
    def why(self, phase: Phase) -> str:
        return short(phase.reason)
