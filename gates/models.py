"""Judgement: gates, the ballots cast at them, and the evidence that was shown."""

from typing import Any

from django.conf import settings
from django.db import models
from django.utils import timezone

from gates.querysets import GateQuerySet
from gates.states import ENDED, GateState
from record.models import ActorKind, Decision, Identified, Lab
from record.services import Subject


class Gate(Identified):
    """One iteration of a gate: a question to people about one subject, with its evidence.

    `key` names the gate at its subject (a phase may have one before it and one after it). Reopening makes a new row
    with the next `iteration`, which reads the policy anew; the old row stays as it was.
    """

    lab = models.ForeignKey(Lab, on_delete=models.PROTECT, related_name="gates")
    subject_kind = models.CharField(max_length=40)
    subject_uuid = models.UUIDField()
    root_uuid = models.UUIDField(null=True, help_text="the run that the subject is part of")
    key = models.CharField(max_length=60)
    protocol = models.CharField(max_length=60, help_text="registered name of the protocol")
    options = models.JSONField(default=dict, help_text="what the protocol was given (a generic form's description)")
    title = models.CharField(max_length=200)
    context = models.CharField(max_length=300, help_text="what it is about, in words")
    iteration = models.PositiveIntegerField(default=1)
    previous = models.OneToOneField("self", null=True, on_delete=models.PROTECT, related_name="next")
    reconsiders = models.BooleanField(
        default=False, help_text="somebody wants the same question asked again: its decision supersedes the last one"
    )
    state = models.CharField(max_length=16, choices=GateState, default=GateState.PREPARING)

    policy = models.JSONField(default=dict, help_text="the policy as it was read when this iteration began")
    requested_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="requested_gates"
    )
    delegated_to = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="delegated_gates"
    )
    suggestion = models.JSONField(default=dict, help_text="what the protocol suggests, as answers to its form")
    figures = models.JSONField(default=dict, help_text="the numbers that the evidence came with")
    notes = models.JSONField(default=list, help_text="warnings of the preparation, in words")
    digest = models.CharField(max_length=64, blank=True, help_text="over the evidence shown and the suggestion")

    requested_at = models.DateTimeField(default=timezone.now)
    opened_at = models.DateTimeField(null=True)
    due_at = models.DateTimeField(null=True)
    escalates_at = models.DateTimeField(null=True)
    escalated_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    decision = models.OneToOneField(Decision, null=True, on_delete=models.PROTECT, related_name="gate")
    apply_attempts = models.PositiveIntegerField(default=0)
    apply_after = models.DateTimeField(
        null=True, help_text="when applying is tried again; null after a failure: only when somebody asks"
    )
    error = models.CharField(max_length=2000, blank=True, help_text="what preparing or applying failed with, in words")

    objects = GateQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["subject_uuid", "key", "iteration"], name="one_gate_an_iteration"),
            models.UniqueConstraint(
                fields=["subject_uuid", "key"], condition=~models.Q(state__in=ENDED), name="one_gate_in_progress"
            ),
        ]
        indexes = [
            models.Index(fields=["lab", "opened_at"], condition=models.Q(state="open"), name="gate_open"),
            # A plain NULL test: SQLite does not see that a query with a state implies a condition with states.
            models.Index(fields=["state", "id"], condition=models.Q(ended_at=None), name="gate_in_progress"),
            models.Index(fields=["root_uuid", "-id"]),
        ]

    def __str__(self) -> str:
        return f"{self.title} ({self.context})"

    def subject(self) -> Subject:
        return Subject("gate", self.uuid, f"gate {self.title}, {self.context}"[:300], self.root_uuid)

    @property
    def is_ended(self) -> bool:
        return self.state in ENDED

    @property
    def state_text(self) -> str:
        """The state as it stands in a sentence."""
        return self.get_state_display().lower()


class Ballot(models.Model):
    """One person's answer. With a quorum of 1 the first ballot decides."""

    gate = models.ForeignKey(Gate, on_delete=models.PROTECT, related_name="ballots")
    voter = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="ballots")
    voter_name = models.CharField(max_length=200)
    voter_kind = models.CharField(max_length=10, choices=ActorKind, default=ActorKind.PERSON)
    door = models.CharField(max_length=10)
    verdict = models.CharField(max_length=60)
    answers = models.JSONField(default=dict)
    reason = models.TextField(blank=True)
    digest = models.CharField(max_length=64, help_text="of the evidence that the voter saw")
    advice = models.JSONField(
        default=dict, help_text="what agents had said that the voter saw: uuid of the ask or suggestion -> digest"
    )
    at = models.DateTimeField(default=timezone.now)
    replaced_at = models.DateTimeField(
        null=True, help_text="when it ceased to count: another answer came in its place, or evidence"
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["gate", "voter"], condition=models.Q(replaced_at=None), name="one_ballot_a_voter"
            )
        ]
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.voter_name}: {self.verdict}"


class Suggestion(Identified):
    """What an agent would answer at a gate. It counts for nothing; the people who decide see it beside the form.

    But for when it was replaced, a row never changes.
    """

    gate = models.ForeignKey(Gate, on_delete=models.PROTECT, related_name="suggestions")
    author = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="suggestions")
    author_name = models.CharField(max_length=200)
    verdict = models.CharField(max_length=60)
    answers = models.JSONField(default=dict)
    reason = models.TextField()
    digest = models.CharField(max_length=64, help_text="of the evidence that the agent read")
    at = models.DateTimeField(default=timezone.now)
    replaced_at = models.DateTimeField(null=True, help_text="when the agent suggested something else in its place")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["gate", "author"], condition=models.Q(replaced_at=None), name="one_suggestion_an_agent"
            )
        ]
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.author_name}: {self.verdict}"

    def facts(self) -> dict[str, Any]:
        """What the digest that decisions keep of it is over: who said what, on which evidence."""
        return {
            "uuid": str(self.uuid), "author": self.author_name, "verdict": self.verdict, "answers": self.answers,
            "reason": self.reason, "evidence": self.digest,
        }  # fmt: skip


class EvidenceKind(models.TextChoices):
    IMAGE = "image"
    STACK = "stack", "slice of a stack"
    TABLE = "table"
    CURVE = "curve"
    LOG = "log"


class Evidence(Identified):
    """One piece of what was shown at a gate. The file lies in the evidence store under its SHA-256."""

    gate = models.ForeignKey(Gate, on_delete=models.PROTECT, related_name="evidence")
    name = models.CharField(max_length=200, help_text="unique at its gate; the order of names is the order of showing")
    kind = models.CharField(max_length=10, choices=EvidenceKind)
    title = models.CharField(max_length=200, blank=True)
    caption = models.CharField(max_length=500, blank=True)
    group = models.CharField(max_length=120, blank=True, help_text="slices of one stack share it")
    index = models.IntegerField(default=0, help_text="position in its group")
    item = models.CharField(max_length=120, blank=True, help_text="the tilt series (or other item) it speaks of")
    media_type = models.CharField(max_length=60)
    sha256 = models.CharField(max_length=64)
    size_bytes = models.PositiveBigIntegerField()
    added_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="added_evidence"
    )
    added_by_name = models.CharField(max_length=200, blank=True, help_text="who added it; empty: the gate's own job")
    added_at = models.DateTimeField(null=True)

    class Meta:
        verbose_name_plural = "evidence"
        constraints = [models.UniqueConstraint(fields=["gate", "name"], name="one_evidence_a_name")]
        ordering = ["gate_id", "name"]

    def __str__(self) -> str:
        return self.title or self.name

    def facts(self) -> dict[str, Any]:
        return {"name": self.name, "kind": self.kind, "sha256": self.sha256}


class SweepBeat(models.Model):
    """When the clocks of gates were last looked at: one row. What lies between two looks too far apart was downtime."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    at = models.DateTimeField()

    def __str__(self) -> str:
        return f"clocks looked at {self.at:%Y-%m-%d %H:%M:%S}"
