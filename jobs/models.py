"""The hands: targets that work can run on, and jobs."""

import secrets

from django.core.validators import MinValueValidator, RegexValidator
from django.db import models
from django.utils import timezone

from jobs.agents.models import Agent as Agent
from jobs.agents.models import Ask as Ask
from jobs.cluster_models import LONGEST_S, refuse_beyond
from jobs.cluster_models import Cluster as Cluster
from jobs.cluster_models import ClusterWatch as ClusterWatch
from jobs.ownership import GROUP, UMASK, Ownership
from jobs.querysets import JobQuerySet
from jobs.states import FINAL, JobState
from record.models import Identified, Lab
from record.services import Subject


def new_token() -> str:
    """A job's token: names its folder on the target and its process environment (26 characters)."""
    return f"j{secrets.token_hex(12)}x"


class TargetKind(models.TextChoices):
    LOCAL = "local", "this machine"
    SLURM = "slurm", "a SLURM cluster"


class Target(Identified):
    """A place where jobs run, with the limits within which they may."""

    lab = models.ForeignKey(Lab, on_delete=models.PROTECT, related_name="targets")
    name = models.SlugField(max_length=60)
    kind = models.CharField(max_length=10, choices=TargetKind, default=TargetKind.LOCAL)
    host = models.CharField(max_length=200, help_text="the host whose `conduct` runs this target's jobs")
    roots = models.JSONField(default=list, help_text="absolute folders that runs may write in, one a list item")
    job_folder = models.CharField(max_length=500, help_text="absolute folder for the jobs' own files (tokens, logs)")
    slots = models.PositiveIntegerField(default=2, validators=[MinValueValidator(1)], help_text="jobs at once")
    default_time_limit_s = models.PositiveIntegerField(default=24 * 3600, help_text="for scripts that ask for none")
    max_time_limit_s = models.PositiveIntegerField(default=7 * 24 * 3600)
    max_memory_mib = models.PositiveIntegerField(default=8192, help_text="the most memory a job may have, MiB")
    umask = models.CharField(
        max_length=4, blank=True, help_text="of all that is made there, e.g. 027; empty: that of the account",
        validators=[RegexValidator(UMASK, "Octal, and nothing taken from the owner: 022, 027, 002, 007 or 077.")],
    )  # fmt: skip
    group = models.CharField(
        max_length=100, blank=True, help_text="to which the folders that are made there belong; empty: as it comes",
        validators=[RegexValidator(GROUP, "It can't be the name of a group.")],
    )  # fmt: skip
    environment_lines = models.TextField(blank=True, help_text="shell lines that run before each script")
    environment_allow = models.JSONField(default=list, help_text="names of our own variables that jobs may see")
    paused = models.BooleanField(default=False, help_text="nothing new is started here")
    archived_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["lab", "name"], name="one_target_a_name")]
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        times = dict.fromkeys(("default_time_limit_s", "max_time_limit_s"), LONGEST_S)
        refuse_beyond(self, times | {"slots": 100_000, "max_memory_mib": 2**31 - 1})

    def subject(self) -> Subject:
        return Subject("target", self.uuid, f"target {self.name}")

    def ownership(self) -> Ownership:
        """Whose the files are that are made there."""
        return Ownership(self.umask, self.group)


class Job(Identified):
    """One execution of one script. A retry is a new row with a new token."""

    lab = models.ForeignKey(Lab, on_delete=models.PROTECT, related_name="jobs")
    target = models.ForeignKey(Target, on_delete=models.PROTECT, related_name="jobs", db_index=False)
    token = models.CharField(max_length=40, unique=True, default=new_token, editable=False)
    state = models.CharField(max_length=14, choices=JobState, default=JobState.PLANNED)

    # What it is for. `purpose` and `step` are the owner's words; `root_uuid` is the run that it is part of.
    name = models.CharField(max_length=200)
    subject_kind = models.CharField(max_length=40)
    subject_uuid = models.UUIDField()
    root_uuid = models.UUIDField(null=True)
    purpose = models.CharField(max_length=40, default="work")
    step = models.PositiveIntegerField(default=0)
    attempt = models.PositiveIntegerField(default=1)
    on_final = models.CharField(max_length=60, blank=True, help_text="registered key of what follows its end")
    final_handled = models.BooleanField(default=False)

    # What is run.
    script = models.TextField(help_text="the untouched script")
    script_name = models.CharField(max_length=200, default="script.sh")
    work_dir = models.CharField(max_length=500)
    job_folder = models.CharField(
        max_length=500, blank=True, help_text="the target's job folder when this was planned: its token lies there"
    )
    environment = models.JSONField(default=dict)
    environment_names = models.JSONField(
        default=list, help_text="names of our own variables that this job may see besides those its target allows"
    )
    time_limit_s = models.PositiveIntegerField()
    memory_mib = models.PositiveIntegerField()
    cpus = models.PositiveIntegerField(default=1)

    # Whose hands it is in. A claim raises `generation`; what is done for an older generation changes nothing.
    generation = models.PositiveIntegerField(default=0)
    holder = models.CharField(max_length=120, blank=True, help_text="process identity of the submitter")
    lease_until = models.DateTimeField(null=True)
    native_id = models.CharField(max_length=120, blank=True)
    native_raw = models.JSONField(default=dict, help_text="the last raw answers about it")

    planned_at = models.DateTimeField(default=timezone.now)
    submitted_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    held = models.BooleanField(default=False, help_text="planned, but not to be started for now (its run is paused)")
    cancel_requested_at = models.DateTimeField(null=True)
    ending = models.JSONField(default=dict, help_text="why it is being stopped: event, message, at (ISO time)")
    exit_code = models.IntegerField(null=True)
    reason = models.CharField(max_length=1000, blank=True, help_text="why it ended as it did, in words")
    stdout_path = models.CharField(max_length=700, blank=True)
    stderr_path = models.CharField(max_length=700, blank=True)

    objects = JobQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(ended_at=None) ^ models.Q(state__in=sorted(FINAL)), name="job_ended_is_final"
            ),
        ]
        indexes = [
            models.Index(fields=["subject_uuid", "-id"]),
            models.Index(fields=["root_uuid", "-id"]),
            # Partial: the sweep looks at what is live or unhandled and never walks through ended jobs. The conditions
            # are plain NULL tests, since SQLite does not see that a query with a list of states implies them.
            models.Index(fields=["target", "state", "id"], condition=models.Q(ended_at=None), name="job_live"),
            models.Index(
                fields=["id"], condition=models.Q(final_handled=False, ended_at__isnull=False), name="job_unhandled"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.token})"

    @property
    def is_final(self) -> bool:
        return self.state in FINAL

    def subject(self) -> Subject:
        return Subject("job", self.uuid, f"job {self.name}", self.root_uuid)

    def log_keys(self) -> dict[str, object]:
        """What lines of the log about it carry: see record.logkeys."""
        return {"job": self.token, "run": self.root_uuid, "target": self.target.name}


class ConductLease(models.Model):
    """Which `conduct` ticks. One row a name; taken over once it has expired."""

    name = models.CharField(max_length=40, primary_key=True)
    holder = models.CharField(max_length=120)
    expires_at = models.DateTimeField()
    beat_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.name} held by {self.holder}"


class Drain(models.Model):
    """While its one row is there, nothing new is started, anywhere: phases stay ready, jobs stay planned."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    since = models.DateTimeField(default=timezone.now)
    reason = models.CharField(max_length=500)

    def __str__(self) -> str:
        return f"draining since {self.since:%Y-%m-%d %H:%M}: {self.reason}"


class Pulse(models.Model):
    """When a worker of a cluster last took the pulse task."""

    cluster = models.CharField(max_length=120, primary_key=True)
    asked_at = models.DateTimeField(null=True)
    beat_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return self.cluster
