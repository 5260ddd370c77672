"""Agents that can be asked, and what each was asked and answered."""

from typing import Any

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.utils import timezone

from jobs.agents.states import ENDED, AskState
from record.models import Door, Identified, Lab
from record.services import Subject

ISOLATIONS = {
    "bubblewrap": "isolated: bubblewrap",
    "other_user": "isolated: another user",
    "elsewhere": "ran elsewhere",
    "person": "a person",
    "unisolated": "not isolated",
}


class Isolation(models.TextChoices):
    BEST = "best", "as well as can be had here"
    REQUIRED = "required", "required: not asked without"
    NONE = "none", "none"


class Agent(Identified):
    """Somebody or something that can be asked. Secrets are named (a variable, a file), never kept."""

    lab = models.ForeignKey(Lab, on_delete=models.PROTECT, related_name="agents")
    name = models.SlugField(max_length=60)
    role = models.CharField(max_length=120, help_text="what it is asked for, in words")
    backend = models.CharField(max_length=20, help_text="command, openai_http or human")
    family = models.CharField(max_length=60, help_text="the family of its model, by which two agents are alike")
    configuration = models.JSONField(default=dict, blank=True, help_text="what its backend needs; see docs/agents.md")
    target = models.ForeignKey(
        "jobs.Target", null=True, blank=True, on_delete=models.PROTECT, related_name="agents",
        help_text="where it runs; empty: a local target of the lab",
    )  # fmt: skip
    isolation = models.CharField(max_length=10, choices=Isolation, default=Isolation.BEST)
    time_limit_s = models.PositiveIntegerField(default=300, validators=[MinValueValidator(1)])
    memory_mib = models.PositiveIntegerField(default=1024, validators=[MinValueValidator(64)])
    at_once = models.PositiveIntegerField(
        default=2,
        validators=[MinValueValidator(1), MaxValueValidator(64)],
        help_text="asks at the same time; others wait",
    )
    off_since = models.DateTimeField(null=True, blank=True, editable=False, help_text="switched off since")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["lab", "name"], name="one_agent_a_name")]
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    def subject(self) -> Subject:
        return Subject("agent", self.uuid, f"agent {self.name}")


class Ask(Identified):
    """One question to one agent, with its prompt as it was put, what came back, and how that was read.

    Who the agent was is copied, since it may be set up anew. Once it has ended a row never changes.
    """

    lab = models.ForeignKey(Lab, on_delete=models.PROTECT, related_name="asks")
    agent = models.ForeignKey(Agent, on_delete=models.PROTECT, related_name="asks")
    agent_name = models.CharField(max_length=60)
    family = models.CharField(max_length=60)
    backend = models.CharField(max_length=20)
    state = models.CharField(max_length=16, choices=AskState, default=AskState.WAITING)

    asked_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="asks")
    asked_by_name = models.CharField(max_length=200)
    door = models.CharField(max_length=10, choices=Door)
    subject_kind = models.CharField(max_length=40)
    subject_uuid = models.UUIDField()
    subject_label = models.CharField(max_length=300)
    root_uuid = models.UUIDField(null=True)
    item = models.CharField(max_length=120, blank=True, help_text="the tilt series (or other item) that it is about")

    template = models.CharField(max_length=60)
    template_version = models.PositiveIntegerField()
    prompt = models.TextField(help_text="as it was put")
    result_format = models.CharField(max_length=12, default="json")
    result_schema = models.JSONField(default=dict)
    attachments = models.JSONField(default=list, help_text="pictures that went along: name, sha256, media_type, path")

    job = models.OneToOneField("jobs.Job", null=True, on_delete=models.PROTECT, related_name="ask")
    created_at = models.DateTimeField(default=timezone.now)
    begun_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    isolation = models.CharField(max_length=12, blank=True, help_text="how it ran; empty while that is not known")
    why = models.CharField(max_length=1000, blank=True, help_text="why it ended as it did, in words")
    result = models.JSONField(null=True, help_text="the answer as it was read; null unless the outcome is ok")
    raw_sha256 = models.CharField(max_length=64, blank=True, help_text="of the output as it is kept, redacted")
    raw_bytes = models.PositiveIntegerField(default=0)
    raw_cut = models.BooleanField(default=False, help_text="it wrote more than is kept")
    model_name = models.CharField(max_length=120, blank=True, help_text="the model that says it answered")
    tokens_in = models.PositiveBigIntegerField(null=True)
    tokens_out = models.PositiveBigIntegerField(null=True)
    cost_usd = models.DecimalField(max_digits=12, decimal_places=6, null=True, help_text="where it is known")
    digest = models.CharField(max_length=64, blank=True, help_text="over who was asked what and what was read")

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(ended_at=None) ^ models.Q(state__in=sorted(ENDED)), name="ask_ended_is_final"
            ),
            models.UniqueConstraint(
                fields=["agent", "subject_uuid", "item"],
                condition=models.Q(ended_at=None) & ~models.Q(item=""),
                name="one_ask_an_item_at_once",
            ),
        ]
        indexes = [
            models.Index(fields=["subject_uuid", "id"]),
            models.Index(fields=["agent", "-id"]),
            models.Index(fields=["agent", "state", "id"], condition=models.Q(ended_at=None), name="ask_live"),
        ]

    def __str__(self) -> str:
        return f"{self.agent_name}, asked about {self.item or self.subject_label}"

    @property
    def is_ended(self) -> bool:
        return self.state in ENDED

    @property
    def is_isolated(self) -> bool:
        """Whether nothing of it could touch what is Conductor's."""
        return self.isolation not in ("", "unisolated")

    @property
    def isolation_text(self) -> str:
        return ISOLATIONS.get(self.isolation, "")

    @property
    def verdict(self) -> str:
        """The verdict that it advises; empty where it gave none."""
        return str((self.result or {}).get("verdict", ""))

    @property
    def reason(self) -> str:
        return str((self.result or {}).get("reason", ""))

    @property
    def words(self) -> str:
        """What it says, or why it says nothing, in a line or two."""
        return self.reason or str((self.result or {}).get("answer", "")) or self.why

    def subject(self) -> Subject:
        return Subject("ask", self.uuid, f"question to {self.agent_name} about {self.item or self.subject_label}"[:300],
                       self.root_uuid)  # fmt: skip

    def facts(self) -> dict[str, Any]:
        """What its digest is over: who was asked what, how it ran, and what was read."""
        return {
            "uuid": str(self.uuid), "agent": self.agent_name, "family": self.family, "backend": self.backend,
            "isolation": self.isolation, "item": self.item, "template": self.template,
            "template_version": self.template_version, "prompt": self.prompt,
            "attachments": {each["name"]: each["sha256"] for each in self.attachments},
            "outcome": self.state, "why": self.why, "result": self.result, "raw_sha256": self.raw_sha256,
        }  # fmt: skip
