"""The API of pipelines, runs, phases and tilt series: reading them, and what people do to them."""

from collections.abc import Callable
from typing import Any

from django.db.models import QuerySet
from django.http import HttpResponse
from django.urls import path, reverse
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.models import Target
from record.access import visible
from record.errors import BadInput, ConductorError
from record.models import Decision, Lab
from record.rest import (
    Command,
    LabReadOnly,
    NoInput,
    ReasonInput,
    RefusalOutput,
    Repeatable,
    StrictSerializer,
    author_of,
)
from record.services import Author
from runs.models import Phase, Pipeline, Run, Species, TiltSeries
from runs.pipeline.load import load_pipeline
from runs.pipeline.snapshot import check_pipeline_folder
from runs.progress import Estimate, estimate
from runs.services import control
from runs.services.create import create_run
from runs.services.dropping import bring_species_back, drop_species
from runs.services.export import write_state_file
from runs.services.preflight import probe_run
from runs.services.series import exclude_series, include_series
from runs.services.settings import set_conf
from runs.services.species import add_species
from runs.services.staging import restore_staging, stage_gates_again
from runs.services.upgrade import upgrade_run
from runs.services.validate import validate_phase


class PipelineOutput(serializers.ModelSerializer[Pipeline]):
    lab = serializers.SlugRelatedField[Lab](slug_field="slug", read_only=True)

    class Meta:
        model = Pipeline
        fields = ["id", "uuid", "lab", "name", "folder", "archived_at"]


class PipelineDetail(PipelineOutput):
    """With what it is made of, as it lies in its folder now: phases, gates, presets, species, and what may be set."""

    spec = serializers.SerializerMethodField(help_text="null where it can't be used")
    fault = serializers.SerializerMethodField(help_text="why it can't be used, in words; empty where it can")

    class Meta(PipelineOutput.Meta):
        fields = [*PipelineOutput.Meta.fields, "spec", "fault"]

    def get_spec(self, pipeline: Pipeline) -> dict[str, Any] | None:
        spec, _ = self._loaded(pipeline)
        return spec

    def get_fault(self, pipeline: Pipeline) -> str:
        _, fault = self._loaded(pipeline)
        return fault

    def _loaded(self, pipeline: Pipeline) -> tuple[dict[str, Any] | None, str]:
        if not hasattr(self, "_looked_up"):
            self._looked_up = _load(pipeline)
        return self._looked_up


def _load(pipeline: Pipeline) -> tuple[dict[str, Any] | None, str]:
    try:
        return load_pipeline(check_pipeline_folder(pipeline.folder)).to_json(), ""
    except ConductorError as error:
        return None, error.message


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
    detail_class = PipelineDetail
    filterset_class = PipelineFilter
    ordering_fields = ["name"]


class SpeciesOutput(serializers.ModelSerializer[Species]):
    dropped_by = serializers.SlugRelatedField[Decision](
        slug_field="uuid", read_only=True, allow_null=True, help_text="uuid of the decision that dropped it"
    )

    class Meta:
        model = Species
        fields = ["label", "conf", "position", "dropped_by"]


class PhaseOutput(serializers.ModelSerializer[Phase]):
    run = serializers.PrimaryKeyRelatedField[Run](read_only=True)
    species = serializers.CharField(
        source="species.label", default=None, allow_null=True, help_text="null: for all tilt series"
    )
    needs = serializers.PrimaryKeyRelatedField[Phase](many=True, read_only=True)

    class Meta:
        model = Phase
        fields = [
            "id", "uuid", "run", "key", "species", "title", "position", "optional", "needs", "state", "attempt",
            "completion", "items_done", "items_total", "started_at", "ended_at", "reason", "stale_since", "gate_asked",
            "gates_passed", "again",
        ]  # fmt: skip


class EstimateOutput(serializers.Serializer[Estimate]):
    elapsed_s = serializers.FloatField()
    remaining_s = serializers.FloatField(allow_null=True, help_text="null where there is nothing to judge by")
    from_attempts = serializers.IntegerField(help_text="by how many earlier attempts it is judged")


class PhaseDetail(PhaseOutput):
    """With how long it may still take, and the outputs that were found."""

    estimate = serializers.SerializerMethodField()

    class Meta(PhaseOutput.Meta):
        fields = [*PhaseOutput.Meta.fields, "estimate", "outputs"]

    @extend_schema_field(EstimateOutput)
    def get_estimate(self, phase: Phase) -> dict[str, Any]:
        return EstimateOutput(estimate(phase)).data


class TiltSeriesOutput(serializers.ModelSerializer[TiltSeries]):
    run = serializers.PrimaryKeyRelatedField[Run](read_only=True)
    excluded = serializers.SerializerMethodField()
    excluded_by = serializers.SlugRelatedField[Decision](
        slug_field="uuid", read_only=True, allow_null=True, help_text="uuid of the decision that excluded it"
    )

    left_out_for = serializers.SerializerMethodField(help_text="labels of species whose lanes alone leave it out")

    class Meta:
        model = TiltSeries
        fields = ["id", "uuid", "run", "name", "verdict", "note", "excluded", "excluded_by", "left_out_for"]

    def get_excluded(self, series: TiltSeries) -> bool:
        return series.excluded_by_id is not None

    def get_left_out_for(self, series: TiltSeries) -> list[str]:
        return [row.species.label for row in series.left_out.all()]


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
            "id", "uuid", "lab", "name", "pipeline", "snapshot_digest", "target", "work_dir", "state", "replay",
            "in_place",
            "preset", "conf", "species", "created_by", "created_at", "ended_at", "archived_at",
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


class Mine(serializers.PrimaryKeyRelatedField[Any]):
    """A thing by its id, among those of the labs of whoever asks."""

    def get_queryset(self) -> QuerySet[Any]:
        found: Any = super().get_queryset()
        request = self.context.get("request")
        return visible(found, request.user) if request else found.none()


class CreateInput(StrictSerializer):
    """What a run is made of. Its lab is that of the pipeline."""

    pipeline = Mine(queryset=Pipeline.objects.filter(archived_at=None), help_text="id")
    target = Mine(queryset=Target.objects.filter(archived_at=None), help_text="id")
    name = serializers.CharField(max_length=500)
    work_dir = serializers.CharField(max_length=5000, help_text="absolute folder within the target's roots")
    conf = serializers.DictField(default=dict, help_text="values of pipeline.conf, over those of the preset")
    species = serializers.ListField(
        child=serializers.CharField(max_length=200), default=list, max_length=100, help_text="labels, each a lane"
    )
    preset = serializers.CharField(max_length=200, default="", allow_blank=True)
    optional = serializers.ListField(
        child=serializers.CharField(max_length=40), default=list, max_length=500, help_text="optional phases to be run"
    )
    replay = serializers.BooleanField(default=False, help_text="start nothing: read what lies in the work folder")
    in_place = serializers.BooleanField(default=False, help_text="use the pipeline's own folder, and no copy of it")


class RunViewSet(Repeatable, LabReadOnly):
    """Passages of data sets through pipelines, newest first."""

    in_one_transaction = False

    queryset = (
        Run.objects.select_related("lab", "target", "created_by", "snapshot__pipeline")
        .defer("snapshot__spec")
        .prefetch_related("species__dropped_by")
        .order_by("-id")
    )
    serializer_class = RunOutput
    detail_class = RunDetail
    filterset_class = RunFilter
    ordering_fields = ["id", "name", "created_at"]

    @property
    def scope(self) -> str:  # type: ignore[override]
        """Reading the list and adding to it have one address."""
        return "operate" if self.action == "create" else "read"

    def get_queryset(self) -> QuerySet[Any]:
        queryset = super().get_queryset()
        if self.action != "retrieve":
            return queryset
        return queryset.prefetch_related(
            "phases__species", "phases__needs", "tilt_series__excluded_by", "tilt_series__left_out__species"
        )

    @extend_schema(
        operation_id="runs_create",
        request=CreateInput,
        responses={201: RunDetail, 400: RefusalOutput, 403: RefusalOutput, 502: RefusalOutput},
        extensions={"x-repeatable": True},
    )
    def create(self, request: Request) -> HttpResponse:
        """Begin a run. What can't be used is refused in words, and nothing is written."""
        return self.once(request, lambda: self._begin(request))

    def _begin(self, request: Request) -> Response:
        given = CreateInput(data=request.data, context={"request": request})
        given.is_valid(raise_exception=True)
        wish = given.validated_data
        run = create_run(lab_id=wish["pipeline"].lab_id, author=author_of(request), **wish)
        row = self.get_queryset().get(pk=run.pk)
        where = request.build_absolute_uri(reverse("api:run-detail", kwargs={"pk": run.pk}))
        return Response(RunDetail(row, context={"request": request}).data, status=201, headers={"Location": where})


class PhaseFilter(filters.FilterSet):
    species = filters.CharFilter(field_name="species__label", label="label of the species")
    stale = filters.BooleanFilter(field_name="stale_since", lookup_expr="isnull", exclude=True)

    class Meta:
        model = Phase
        fields = ["run", "key", "state", "completion", "uuid"]


class PhaseViewSet(LabReadOnly):
    """Phases of runs."""

    queryset = (
        Phase.objects.select_related("species", "run__snapshot", "run__lab")
        .defer("run__snapshot__spec")
        .prefetch_related("needs")
        .order_by("-run_id", "position", "id")
    )
    serializer_class = PhaseOutput
    detail_class = PhaseDetail
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

    queryset = (
        TiltSeries.objects.select_related("excluded_by", "run")
        .prefetch_related("left_out__species")
        .order_by("-run_id", "name")
    )
    serializer_class = TiltSeriesOutput
    filterset_class = TiltSeriesFilter
    lab_path = "run__lab"
    ordering_fields = ["name"]


class RunCommand(Command):
    scope = "operate"
    queryset = RunViewSet.queryset
    output_class = RunOutput


class Pause(RunCommand):
    """Start nothing more in this run; what is running goes on to its end."""

    operation = "runs_pause"

    def carry_out(self, found: Run, author: Author, **given: Any) -> None:
        control.pause_run(run=found, author=author, **given)


class Resume(RunCommand):
    """Go on with a paused run."""

    operation = "runs_resume"

    def carry_out(self, found: Run, author: Author, **given: Any) -> None:
        control.resume_run(run=found, author=author, **given)


class Cancel(RunCommand):
    """End a run for good: its jobs are cancelled, its open gates withdrawn. What lies on disk stays."""

    operation = "runs_cancel"

    def carry_out(self, found: Run, author: Author, **given: Any) -> None:
        control.cancel_run(run=found, author=author, **given)


class Archive(RunCommand):
    """Put an ended run away; it stays readable and takes no more commands."""

    operation = "runs_archive"

    def carry_out(self, found: Run, author: Author, **given: Any) -> None:
        control.archive_run(run=found, author=author, **given)


class StateFileInput(StrictSerializer):
    on = serializers.BooleanField(default=True, help_text="false: leave the file alone from now on")


class StateFile(RunCommand):
    """Write the lab's state file after each change from now on, or leave it alone."""

    input_class = StateFileInput
    operation = "runs_state_file"

    def carry_out(self, found: Run, author: Author, **given: Any) -> None:
        write_state_file(run=found, author=author, **given)


class Restore(RunCommand):
    """Put a replay back to what it was before one of its gates was staged again."""

    operation = "runs_restore"

    def carry_out(self, found: Run, author: Author, **given: Any) -> None:
        restore_staging(run=found, author=author, **given)


class ConfInput(ReasonInput):
    values = serializers.DictField(allow_empty=False, help_text="values by their names")
    species = serializers.CharField(
        max_length=32, allow_null=True, default=None, help_text="label of the species whose conf it is; null: the run's"
    )

    def validate_species(self, label: str | None) -> Species | None:
        if label is None:
            return None
        run: Run = self.context["found"]
        species = run.species.filter(label=label).first()
        if species is None:
            there = ", ".join(run.species.values_list("label", flat=True)) or "none"
            raise serializers.ValidationError(f"This run has no species {label!r}. It has: {there}.")
        return species


class SetConf(RunCommand):
    """Change values of the run's conf, or of one species'; phases that have used one of them become stale."""

    input_class = ConfInput
    operation = "runs_set_conf"

    def carry_out(self, found: Run, author: Author, **given: Any) -> None:
        set_conf(run=found, author=author, **given)


class PreflightFinding(serializers.Serializer[Any]):
    key = serializers.CharField()
    status = serializers.CharField(help_text="ok, missing, blocks or unknown")
    message = serializers.CharField()
    remedy = serializers.CharField()
    found = serializers.CharField()
    version = serializers.CharField()


class PreflightOutput(serializers.Serializer[Any]):
    at = serializers.DateTimeField()
    by_name = serializers.CharField()
    findings = PreflightFinding(many=True)


class Probe(RunCommand):
    """Look at the run's target now: folders, conda environments, tools and their versions, partitions."""

    input_class = NoInput
    output_class = PreflightOutput  # type: ignore[assignment]
    operation = "runs_probe"
    in_one_transaction = False

    def respond(self, request: Request, pk: int) -> Response:
        found = self.find(request, pk)
        self.given(request, found)
        return self.show(probe_run(run=found, author=author_of(request)))


class SpeciesInput(ReasonInput):
    label = serializers.CharField(  # type: ignore[assignment]
        max_length=200, help_text="names its lane and its files: A-Z a-z 0-9 _"
    )
    values = serializers.DictField(default=dict, help_text="values of its conf that differ from the pipeline's")


class NamedSpeciesInput(ReasonInput):
    label = serializers.CharField(max_length=200, help_text="of one of the run's species")  # type: ignore[assignment]


class AddSpecies(RunCommand):
    """Give a run another species: a lane of its own, on the tomograms that are there."""

    input_class = SpeciesInput
    operation = "runs_add_species"
    in_one_transaction = False
    success = 201

    def carry_out(self, found: Run, author: Author, **given: Any) -> None:
        add_species(run=found, author=author, **given)


class UpgradeInput(ReasonInput):
    digest = serializers.CharField(
        max_length=64, default="", allow_blank=True, help_text="of the folder as it was looked at; empty: as it is now"
    )


class Upgrade(RunCommand):
    """Go on with the pipeline's folder as it is now; what was done with scripts that have changed becomes stale."""

    input_class = UpgradeInput
    operation = "runs_upgrade"
    in_one_transaction = False

    def carry_out(self, found: Run, author: Author, **given: Any) -> None:
        upgrade_run(run=found, author=author, **given)


class SpeciesCommand(RunCommand):
    """A decision about one of a run's species."""

    scope = "decide"
    input_class = NamedSpeciesInput
    do: Callable[..., Any]

    def carry_out(self, found: Run, author: Author, **given: Any) -> None:
        species = found.species.filter(label=given["label"]).first()
        if species is None:
            raise BadInput(f"Run {found.name} has no species {given['label']}.")
        type(self).do(species=species, author=author, reason=given["reason"])


class DropSpecies(SpeciesCommand):
    """Go on without a species; what its lane has not done is skipped. A reason is owed."""

    operation = "runs_drop_species"
    do = staticmethod(drop_species)


class BringSpeciesBack(SpeciesCommand):
    """Take a dropped species along again, where its lane stopped."""

    operation = "runs_bring_species_back"
    do = staticmethod(bring_species_back)


class PhaseCommand(Command):
    scope = "operate"
    queryset = PhaseViewSet.queryset
    lab_path = "run__lab"
    output_class = PhaseOutput


class Check(PhaseCommand):
    """Ask the pipeline's validate.sh and look for the outputs; what is found is an event of the phase."""

    operation = "phases_check"

    def carry_out(self, found: Phase, author: Author, **given: Any) -> None:
        validate_phase(phase=found, author=author, **given)


class Retry(PhaseCommand):
    """Try a failed phase again; its scripts go on with the items that are missing."""

    operation = "phases_retry"

    def carry_out(self, found: Phase, author: Author, **given: Any) -> None:
        control.retry_phase(phase=found, author=author, **given)


class Skip(PhaseCommand):
    """Go on without a phase. One that isn't optional owes a reason."""

    operation = "phases_skip"

    def carry_out(self, found: Phase, author: Author, **given: Any) -> None:
        control.skip_phase(phase=found, author=author, **given)


class RunAgainInput(ReasonInput):
    keep_outputs = serializers.BooleanField(
        default=False, help_text="go on with the items that are missing, instead of setting aside what was made"
    )


class RunAgain(PhaseCommand):
    """Do a phase again, and after it all that depends on it."""

    input_class = RunAgainInput
    operation = "phases_run_again"

    def carry_out(self, found: Phase, author: Author, **given: Any) -> None:
        control.run_again_from(phase=found, author=author, **given)


class Stage(PhaseCommand):
    """Put the gates of a replay's phase to people again; the run can be put back afterwards."""

    operation = "phases_stage"

    def carry_out(self, found: Phase, author: Author, **given: Any) -> None:
        stage_gates_again(phase=found, author=author, **given)


class SeriesCommand(Command):
    scope = "decide"
    queryset = TiltSeriesViewSet.queryset
    lab_path = "run__lab"
    output_class = TiltSeriesOutput


class Exclude(SeriesCommand):
    """Leave a tilt series out from here on."""

    operation = "tilt_series_exclude"

    def carry_out(self, found: TiltSeries, author: Author, **given: Any) -> None:
        exclude_series(series=found, author=author, **given)


class Include(SeriesCommand):
    """Bring an excluded tilt series back."""

    operation = "tilt_series_include"

    def carry_out(self, found: TiltSeries, author: Author, **given: Any) -> None:
        include_series(series=found, author=author, **given)


commands = [
    path("runs/<int:pk>/pause/", Pause.as_view(), name="run-pause"),
    path("runs/<int:pk>/resume/", Resume.as_view(), name="run-resume"),
    path("runs/<int:pk>/cancel/", Cancel.as_view(), name="run-cancel"),
    path("runs/<int:pk>/archive/", Archive.as_view(), name="run-archive"),
    path("runs/<int:pk>/probe/", Probe.as_view(), name="run-probe"),
    path("runs/<int:pk>/species/", AddSpecies.as_view(), name="run-species"),
    path("runs/<int:pk>/drop-species/", DropSpecies.as_view(), name="run-drop-species"),
    path("runs/<int:pk>/bring-species-back/", BringSpeciesBack.as_view(), name="run-bring-species-back"),
    path("runs/<int:pk>/upgrade/", Upgrade.as_view(), name="run-upgrade"),
    path("runs/<int:pk>/conf/", SetConf.as_view(), name="run-conf"),
    path("runs/<int:pk>/state-file/", StateFile.as_view(), name="run-state-file"),
    path("phases/<int:pk>/check/", Check.as_view(), name="phase-check"),
    path("runs/<int:pk>/restore/", Restore.as_view(), name="run-restore"),
    path("phases/<int:pk>/stage/", Stage.as_view(), name="phase-stage"),
    path("phases/<int:pk>/retry/", Retry.as_view(), name="phase-retry"),
    path("phases/<int:pk>/skip/", Skip.as_view(), name="phase-skip"),
    path("phases/<int:pk>/run-again/", RunAgain.as_view(), name="phase-run-again"),
    path("tilt-series/<int:pk>/exclude/", Exclude.as_view(), name="tilt-series-exclude"),
    path("tilt-series/<int:pk>/include/", Include.as_view(), name="tilt-series-include"),
]
