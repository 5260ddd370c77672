"""The API of targets and jobs."""

from typing import Any

from django_filters import rest_framework as filters
from rest_framework import serializers

from jobs.models import Job, Target
from record.models import Lab
from record.rest import LabReadOnly


class TargetOutput(serializers.ModelSerializer[Target]):
    lab = serializers.SlugRelatedField[Lab](slug_field="slug", read_only=True)

    class Meta:
        model = Target
        fields = [
            "id", "uuid", "lab", "name", "kind", "host", "roots", "job_folder", "slots", "default_time_limit_s",
            "max_time_limit_s", "max_memory_mib", "paused", "archived_at",
        ]  # fmt: skip


class TargetFilter(filters.FilterSet):
    lab = filters.CharFilter(field_name="lab__slug", label="slug of the lab")
    archived = filters.BooleanFilter(field_name="archived_at", lookup_expr="isnull", exclude=True)

    class Meta:
        model = Target
        fields = ["name", "kind", "paused"]


class TargetViewSet(LabReadOnly):
    """Places where jobs run."""

    queryset = Target.objects.select_related("lab").order_by("name", "id")
    serializer_class = TargetOutput
    filterset_class = TargetFilter
    ordering_fields = ["name"]


class JobOutput(serializers.ModelSerializer[Job]):
    lab = serializers.SlugRelatedField[Lab](slug_field="slug", read_only=True)
    target = serializers.SlugRelatedField[Target](slug_field="name", read_only=True)

    class Meta:
        model = Job
        fields = [
            "id", "uuid", "lab", "target", "token", "name", "state", "is_final", "subject_kind", "subject_uuid",
            "root_uuid", "purpose", "step", "attempt", "time_limit_s", "memory_mib", "cpus", "native_id", "planned_at",
            "submitted_at", "started_at", "ended_at", "cancel_requested_at", "exit_code", "reason", "final_handled",
        ]  # fmt: skip


class JobDetail(JobOutput):
    """With the script, and where it runs and writes."""

    class Meta(JobOutput.Meta):
        fields = [*JobOutput.Meta.fields, "script_name", "script", "work_dir", "stdout_path", "stderr_path"]


class JobFilter(filters.FilterSet):
    lab = filters.CharFilter(field_name="lab__slug", label="slug of the lab")
    target = filters.CharFilter(field_name="target__name", label="name of the target")
    run = filters.UUIDFilter(field_name="root_uuid", label="uuid of the run that it is part of")
    live = filters.BooleanFilter(method="only_live", label="not ended yet")

    class Meta:
        model = Job
        fields = ["state", "subject_kind", "subject_uuid", "purpose", "token"]

    def only_live(self, queryset: Any, name: str, value: bool) -> Any:
        return queryset.live() if value else queryset.exclude(pk__in=queryset.live().values("pk"))


class JobViewSet(LabReadOnly):
    """Executions of scripts, newest first."""

    queryset = Job.objects.select_related("lab", "target").order_by("-id")
    serializer_class = JobOutput
    detail_class = JobDetail
    filterset_class = JobFilter
    ordering_fields = ["id", "planned_at", "ended_at"]
