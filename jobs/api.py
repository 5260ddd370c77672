"""The API of targets and jobs."""

from typing import Any

from django.urls import path
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from jobs import logs
from jobs.check import check_target
from jobs.models import Job, Target
from jobs.reading import read_log
from jobs.services import request_cancel
from record.access import Ability
from record.models import Lab
from record.rest import Command, LabReadOnly, NoInput, RefusalOutput, StrictSerializer
from record.services import Author

STREAMS = {"stdout": "out", "stderr": "err"}


class TargetOutput(serializers.ModelSerializer[Target]):
    lab = serializers.SlugRelatedField[Lab](slug_field="slug", read_only=True)

    class Meta:
        model = Target
        fields = [
            "id", "uuid", "lab", "name", "kind", "host", "roots", "job_folder", "slots", "default_time_limit_s",
            "max_time_limit_s", "max_memory_mib", "umask", "group", "paused", "archived_at",
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


class LogQuery(StrictSerializer):
    stream = serializers.ChoiceField(choices=list(STREAMS), default="stdout")
    lines = serializers.IntegerField(min_value=1, max_value=2000, default=40, help_text="how many of the last lines")
    start = serializers.IntegerField(
        min_value=0,
        max_value=2**62,
        default=None,
        help_text="first byte; with it, `lines` does not count",
    )
    length = serializers.IntegerField(
        min_value=1, max_value=logs.SLICE_LIMIT_BYTES, default=64 * 1024, help_text="bytes from `start`"
    )


class LogOutput(serializers.Serializer[Any]):
    """The bytes from `start` up to `end`; ask again from `end` for what has been written since."""

    text = serializers.CharField()
    start = serializers.IntegerField()
    end = serializers.IntegerField()
    size = serializers.IntegerField(help_text="bytes of the whole file")


class JobViewSet(LabReadOnly):
    """Executions of scripts, newest first."""

    queryset = Job.objects.select_related("lab", "target").order_by("-id")
    serializer_class = JobOutput
    detail_class = JobDetail
    filterset_class = JobFilter
    ordering_fields = ["id", "planned_at", "ended_at"]

    @extend_schema(
        operation_id="jobs_log",
        parameters=[LogQuery],
        responses={200: LogOutput, 400: RefusalOutput, 404: RefusalOutput, 502: RefusalOutput},
        filters=False,
    )
    @action(detail=True, pagination_class=None, filter_backends=())
    def log(self, request: Request, pk: int) -> Response:
        """A piece of what the job wrote: its last lines, or a range of bytes. Made safe to show."""
        job = self.get_object()
        query = LogQuery(data=request.query_params.dict())
        query.is_valid(raise_exception=True)
        wish = query.validated_data
        stream = STREAMS[wish.pop("stream")]
        return Response(LogOutput(read_log(job, stream, **wish)).data)


class CancelJob(Command):
    """Ask for the job's end; one that has ended stays as it is."""

    queryset = JobViewSet.queryset
    output_class = JobOutput
    ability = Ability.OPERATE
    scope = "operate"
    operation = "jobs_cancel"

    def carry_out(self, found: Job, author: Author, **given: Any) -> None:
        request_cancel(job=found, author=author, **given)


class FindingOutput(serializers.Serializer[Any]):
    """One thing that was looked at."""

    ok = serializers.BooleanField()
    message = serializers.CharField(help_text="what is the case and, where it is not ok, what to do")


class CheckTarget(Command):
    """Look now at everything that a job needs on the target; it takes a minute at most."""

    queryset = TargetViewSet.queryset
    input_class = NoInput
    output_class = FindingOutput
    output_is_a_list = True
    ability = Ability.OPERATE
    scope = "operate"
    operation = "targets_check"
    in_one_transaction = False

    def respond(self, request: Request, pk: int) -> Response:
        found = self.find(request, pk)
        self.given(request, found)
        return Response(FindingOutput(check_target(found), many=True).data)


commands = [
    path("jobs/<int:pk>/cancel/", CancelJob.as_view(), name="job-cancel"),
    path("targets/<int:pk>/check/", CheckTarget.as_view(), name="target-check"),
]
