"""The API of pipelines, runs, phases and tilt series."""

from typing import Any

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from rest_framework import serializers

from jobs.models import Target
from record.models import Decision, Lab
from record.rest import LabReadOnly
from runs.models import Phase, Pipeline, Run, Species, TiltSeries


class PipelineOutput(serializers.ModelSerializer[Pipeline]):
    lab = serializers.SlugRelatedField[Lab](slug_field="slug", read_only=True)

    class Meta:
        model = Pipeline
        fields = ["id", "uuid", "lab", "name", "folder", "archived_at"]


class PipelineFilter(filters.FilterSet):
    lab = filters.CharFilter(field_name="lab__slug", label="slug of the lab")
    archived = filters.BooleanFilter(field_name="archived_at", lookup_expr="isnull", exclude=True)

    class Meta:
        model = Pipeline
        fields = ["name"]


class PipelineViewSet(LabReadOnly):
    """Pipelines that runs can be made from."""

    queryset = Pipeline.objects.select_related("lab").order_by("name", "id")
    serializer_class = PipelineOutput
    filterset_class = PipelineFilter
    ordering_fields = ["name"]


class SpeciesOutput(serializers.ModelSerializer[Species]):
    class Meta:
        model = Species
        fields = ["label", "conf", "position"]


class PhaseOutput(serializers.ModelSerializer[Phase]):
    run = serializers.PrimaryKeyRelatedField[Run](read_only=True)
    species = serializers.CharField(source="species.label", default=None, help_text="null: for all tilt series")
    needs = serializers.PrimaryKeyRelatedField[Phase](many=True, read_only=True)

    class Meta:
        model = Phase
        fields = [
            "id", "uuid", "run", "key", "species", "title", "position", "optional", "needs", "state", "attempt",
            "completion", "items_done", "items_total", "started_at", "ended_at", "reason", "stale_since",
        ]  # fmt: skip


class TiltSeriesOutput(serializers.ModelSerializer[TiltSeries]):
    run = serializers.PrimaryKeyRelatedField[Run](read_only=True)
    excluded = serializers.SerializerMethodField()
    excluded_by = serializers.SlugRelatedField[Decision](
        slug_field="uuid", read_only=True, help_text="uuid of the decision that excluded it"
    )

    class Meta:
        model = TiltSeries
        fields = ["id", "uuid", "run", "name", "verdict", "note", "excluded", "excluded_by"]

    def get_excluded(self, series: TiltSeries) -> bool:
        return series.excluded_by_id is not None


class RunOutput(serializers.ModelSerializer[Run]):
    lab = serializers.SlugRelatedField[Lab](slug_field="slug", read_only=True)
    pipeline = serializers.CharField(source="snapshot.pipeline.name")
    snapshot_digest = serializers.CharField(source="snapshot.digest")
    target = serializers.SlugRelatedField[Target](slug_field="name", read_only=True)
    created_by = serializers.CharField(source="created_by.username")
    species = SpeciesOutput(many=True, read_only=True)

    class Meta:
        model = Run
        fields = [
            "id", "uuid", "lab", "name", "pipeline", "snapshot_digest", "target", "work_dir", "state", "conf",
            "species", "created_by", "created_at", "ended_at", "archived_at",
        ]  # fmt: skip


class RunDetail(RunOutput):
    """With its phases and tilt series."""

    phases = PhaseOutput(many=True, read_only=True)
    tilt_series = TiltSeriesOutput(many=True, read_only=True)

    class Meta(RunOutput.Meta):
        fields = [*RunOutput.Meta.fields, "phases", "tilt_series"]


class RunFilter(filters.FilterSet):
    lab = filters.CharFilter(field_name="lab__slug", label="slug of the lab")
    pipeline = filters.CharFilter(field_name="snapshot__pipeline__name", label="name of the pipeline")
    target = filters.CharFilter(field_name="target__name", label="name of the target")
    archived = filters.BooleanFilter(field_name="archived_at", lookup_expr="isnull", exclude=True)

    class Meta:
        model = Run
        fields = ["state", "name", "uuid"]


class RunViewSet(LabReadOnly):
    """Passages of data sets through pipelines, newest first."""

    queryset = (
        Run.objects.select_related("lab", "target", "created_by", "snapshot__pipeline")
        .defer("snapshot__spec")
        .prefetch_related("species")
        .order_by("-id")
    )
    serializer_class = RunOutput
    detail_class = RunDetail
    filterset_class = RunFilter
    ordering_fields = ["id", "name", "created_at"]

    def get_queryset(self) -> QuerySet[Any]:
        queryset = super().get_queryset()
        if self.action != "retrieve":
            return queryset
        return queryset.prefetch_related("phases__species", "phases__needs", "tilt_series__excluded_by")


class PhaseFilter(filters.FilterSet):
    species = filters.CharFilter(field_name="species__label", label="label of the species")
    stale = filters.BooleanFilter(field_name="stale_since", lookup_expr="isnull", exclude=True)

    class Meta:
        model = Phase
        fields = ["run", "key", "state", "completion", "uuid"]


class PhaseViewSet(LabReadOnly):
    """Phases of runs."""

    queryset = Phase.objects.select_related("species").prefetch_related("needs").order_by("-run_id", "position", "id")
    serializer_class = PhaseOutput
    filterset_class = PhaseFilter
    lab_path = "run__lab"
    ordering_fields = ["id", "position", "started_at", "ended_at"]


class TiltSeriesFilter(filters.FilterSet):
    excluded = filters.BooleanFilter(field_name="excluded_by", lookup_expr="isnull", exclude=True)

    class Meta:
        model = TiltSeries
        fields = ["run", "name", "verdict"]


class TiltSeriesViewSet(LabReadOnly):
    """Tilt series of runs."""

    queryset = TiltSeries.objects.select_related("excluded_by").order_by("-run_id", "name")
    serializer_class = TiltSeriesOutput
    filterset_class = TiltSeriesFilter
    lab_path = "run__lab"
    ordering_fields = ["name"]
