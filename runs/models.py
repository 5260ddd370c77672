"""Cryo-ET runs: pipelines, their snapshots, runs with species, tilt series and phases."""

from typing import Any

from django.conf import settings
from django.db import models
from django.utils import timezone

from jobs.models import Target
from record.models import Decision, Identified, Lab
from record.services import Subject
from runs.querysets import PhaseQuerySet, PreflightQuerySet, RunQuerySet, SpeciesQuerySet
from runs.states import Completion, PhaseState, RunState

TITLE_CHARS = 80  # of a phase's title, in sentences


class Pipeline(Identified):
    """A folder with a manifest, an overlay and scripts, as a lab keeps it."""

    lab = models.ForeignKey(Lab, on_delete=models.PROTECT, related_name="pipelines")
    name = models.CharField(max_length=120)
    folder = models.CharField(max_length=500, help_text="absolute folder that holds scripts/manifest.yml")
    archived_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["lab", "name"], name="one_pipeline_a_name")]
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    def subject(self) -> Subject:
        return Subject("pipeline", self.uuid, f"pipeline {self.name}")


class Snapshot(models.Model):
    """A pipeline as it was when a run began: its files lie under `digest` in the snapshot store."""

    pipeline = models.ForeignKey(Pipeline, on_delete=models.PROTECT, related_name="snapshots")
    digest = models.CharField(max_length=64, help_text="SHA-256 over the files' names and contents")
    spec = models.JSONField(help_text="the phases, gates and presets, checked")
    taken_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["pipeline", "digest"], name="one_snapshot_a_digest")]

    def __str__(self) -> str:
        return f"{self.pipeline} {self.digest[:12]}"


class Run(Identified):
    """One passage of a data set through a pipeline."""

    lab = models.ForeignKey(Lab, on_delete=models.PROTECT, related_name="runs")
    name = models.CharField(max_length=120)
    snapshot = models.ForeignKey(Snapshot, on_delete=models.PROTECT, related_name="runs")
    target = models.ForeignKey(Target, on_delete=models.PROTECT, related_name="runs")
    work_dir = models.CharField(max_length=500, help_text="absolute folder on the target")
    state = models.CharField(max_length=10, choices=RunState, default=RunState.RUNNING)
    preset = models.CharField(max_length=32, blank=True, help_text="the preset that its values began with")
    conf = models.JSONField(default=dict, help_text="values of pipeline.conf that this run has of its own")
    replay = models.BooleanField(default=False, help_text="starts nothing: what its phases made is read from disk")
    in_place = models.BooleanField(default=False, help_text="uses the pipeline's own folder, and no copy of it")
    exports_state = models.BooleanField(default=False, help_text="its state is written into the lab's own state file")
    state_file = models.TextField(blank=True, help_text="the lab's state file as it was read or written last")
    state_event = models.PositiveBigIntegerField(default=0, help_text="the last event that the state file tells")
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="runs")
    created_at = models.DateTimeField(default=timezone.now)
    ended_at = models.DateTimeField(null=True)
    archived_at = models.DateTimeField(null=True)

    objects = RunQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["lab", "name"], name="one_run_a_name"),
            models.UniqueConstraint(
                fields=["target", "work_dir"], condition=models.Q(archived_at=None), name="one_run_a_folder"
            ),
        ]
        indexes = [models.Index(fields=["lab", "state", "-id"])]

    def __str__(self) -> str:
        return self.name

    def subject(self) -> Subject:
        return Subject("run", self.uuid, f"run {self.name}", self.uuid)


class Preflight(models.Model):
    """One look at a run's target: what the run's phases need there. The last one counts, earlier ones stay.

    One that is still to be made has no `at`; the run's setup gate waits for it.
    """

    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="preflights")
    at = models.DateTimeField(null=True, default=timezone.now, help_text="when it was made; null: it is still to be")
    due_at = models.DateTimeField(null=True, help_text="when somebody may begin it; while somebody is at it, later")
    by_name = models.CharField(max_length=200, help_text="who had it looked at, as they were called then")
    findings = models.JSONField(default=list, help_text="see runs/preflight/findings.py")

    objects = PreflightQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.run} looked at {self.at:%Y-%m-%d %H:%M}" if self.at else f"{self.run}, to be looked at"


class Species(models.Model):
    """A kind of particle that is looked for in the run's tomograms."""

    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="species")
    label = models.CharField(max_length=32)
    conf = models.JSONField(default=dict, help_text="values of its species conf that differ from the pipeline's")
    position = models.PositiveIntegerField(default=0)
    dropped_by = models.ForeignKey(Decision, null=True, blank=True, on_delete=models.PROTECT, related_name="dropped")

    objects = SpeciesQuerySet.as_manager()

    class Meta:
        verbose_name_plural = "species"
        constraints = [models.UniqueConstraint(fields=["run", "label"], name="one_species_a_label")]
        ordering = ["position", "id"]

    def __str__(self) -> str:
        return self.label


class TiltSeries(Identified):
    """One tilt series of a run. An exclusion sticks until a decision brings the series back."""

    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="tilt_series")
    name = models.CharField(max_length=120)
    verdict = models.CharField(max_length=10, blank=True, help_text="good, suspect or bad, as a person said")
    note = models.CharField(max_length=500, blank=True)
    excluded_by = models.ForeignKey(Decision, null=True, blank=True, on_delete=models.PROTECT, related_name="excluded")

    class Meta:
        verbose_name_plural = "tilt series"
        constraints = [models.UniqueConstraint(fields=["run", "name"], name="one_series_a_name")]
        ordering = ["run_id", "name"]

    def __str__(self) -> str:
        return self.name

    def subject(self) -> Subject:
        return Subject("tilt_series", self.uuid, f"tilt series {self.name}", self.run.uuid)


class LeftOut(models.Model):
    """A tilt series that one species' lane leaves out, while others take it along. It sticks as an exclusion does."""

    series = models.ForeignKey(TiltSeries, on_delete=models.PROTECT, related_name="left_out")
    species = models.ForeignKey(Species, on_delete=models.PROTECT, related_name="left_out")
    decision = models.ForeignKey(Decision, on_delete=models.PROTECT, related_name="left_out")

    class Meta:
        verbose_name_plural = "left out"
        constraints = [models.UniqueConstraint(fields=["series", "species"], name="one_exclusion_a_lane")]
        ordering = ["series_id", "species_id"]

    def __str__(self) -> str:
        return f"{self.series} for {self.species}"


class Phase(Identified):
    """One phase of a run, for one species or for all tilt series (`species` is null)."""

    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="phases")
    species = models.ForeignKey(Species, null=True, on_delete=models.PROTECT, related_name="phases")
    key = models.CharField(max_length=40, help_text="as the manifest calls it")
    title = models.CharField(max_length=300)
    position = models.PositiveIntegerField(help_text="column in the run's picture")
    optional = models.BooleanField(default=False)
    needs = models.ManyToManyField("self", symmetrical=False, related_name="needed_by", blank=True)
    state = models.CharField(max_length=10, choices=PhaseState, default=PhaseState.PENDING)
    attempt = models.PositiveIntegerField(default=0)
    gates_passed = models.JSONField(
        default=list, help_text="keys of its gates that were passed since it was last reset"
    )
    gate_asked = models.CharField(max_length=60, blank=True, help_text="key of the gate that it waits at")
    afresh = models.BooleanField(default=False, help_text="outputs are set aside before its next start")
    holder = models.CharField(max_length=120, blank=True, help_text="process that sets its outputs aside")
    again = models.BooleanField(default=False, help_text="done, and to be run again once what it needs is done anew")

    on_disk = models.BooleanField(
        default=False, help_text="worked on elsewhere: its outputs are looked for at its next turn, not made"
    )
    awaited_ids = models.JSONField(default=list, help_text="the scheduler's ids of jobs that may still make them")

    completion = models.CharField(max_length=7, choices=Completion, default=Completion.PENDING)
    items_done = models.PositiveIntegerField(default=0)
    items_total = models.PositiveIntegerField(default=0)
    items_at_start = models.PositiveIntegerField(default=0, help_text="items that were done when the attempt began")
    looked_at = models.DateTimeField(null=True, help_text="when its progress was last read from disk")
    outputs = models.JSONField(default=dict, help_text="what was found: series name (or empty) -> paths, see verify.py")
    files = models.JSONField(
        default=dict, help_text="what its gates look at: gate key -> name -> series (or empty) -> path"
    )

    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True, help_text="when its work ended; a gate after it may still wait")
    reason = models.CharField(max_length=2000, blank=True, help_text="why it failed or was skipped, in words")
    rejected_by = models.ForeignKey(
        Decision,
        null=True,
        on_delete=models.PROTECT,
        related_name="rejected",
        help_text="why it failed, where that was a person's no: other lanes don't wait for it",
    )
    stale_since = models.DateTimeField(null=True)
    stale_by = models.ForeignKey(Decision, null=True, on_delete=models.PROTECT, related_name="made_stale")

    objects = PhaseQuerySet.as_manager()

    class Meta:
        ordering = ["run_id", "position", "id"]
        constraints = [
            models.UniqueConstraint(fields=["run", "key", "species"], name="one_phase_a_lane"),
            models.UniqueConstraint(
                fields=["run", "key"], condition=models.Q(species=None), name="one_shared_phase_a_key"
            ),
        ]
        indexes = [models.Index(fields=["state", "run"])]

    def __str__(self) -> str:
        return self.named

    @property
    def is_rejected(self) -> bool:
        """Whether it failed because what it made was rejected at a gate."""
        return self.state == PhaseState.FAILED and self.rejected_by_id is not None

    @property
    def label(self) -> str:
        """Its key and species, in short."""
        return f"{self.key} ({self.species.label})" if self.species else self.key

    @property
    def named(self) -> str:
        """As sentences name it: Alignment (phase 2), or with its species Picks (phase 4c, alpha)."""
        key = self.key if self.key.casefold().startswith("phase") else f"phase {self.key}"
        if self.title.casefold() in ("", self.key.casefold(), key.casefold()):
            return f"{key} ({self.species.label})" if self.species else key
        title = self.title if len(self.title) <= TITLE_CHARS else f"{self.title[: TITLE_CHARS - 1].rstrip()}…"
        return f"{title} ({key}, {self.species.label})" if self.species else f"{title} ({key})"

    @property
    def awaits_end(self) -> bool:
        """Whether it rests: its job has left the queue, and nobody knows how it ended."""
        return self.state == PhaseState.VERIFYING and self.ended_at is None

    @property
    def is_at_work(self) -> bool:
        """Whether it waits for the end of a job."""
        return self.state == PhaseState.RUNNING or self.awaits_end

    def subject(self) -> Subject:
        return Subject("phase", self.uuid, f"{self.run.name}, {self.named}", self.run.uuid)

    def facts(self) -> dict[str, Any]:
        return {"run": self.run_id, "phase": self.label, "state": self.state, "attempt": self.attempt}


class Staging(models.Model):
    """A gate of a replay that is put to people once more, with what the run was before."""

    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="stagings")
    phase = models.ForeignKey(Phase, on_delete=models.PROTECT, related_name="stagings")
    at = models.DateTimeField(default=timezone.now)
    decision = models.ForeignKey(Decision, on_delete=models.PROTECT, related_name="staged")
    before = models.JSONField(help_text="values, exclusions and phases; see services/staging.py")
    restored_by = models.ForeignKey(Decision, null=True, on_delete=models.PROTECT, related_name="put_back")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run"], condition=models.Q(restored_by=None), name="one_staging_at_a_time")
        ]
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.phase} staged again"
