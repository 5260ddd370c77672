"""The memory: labs and their members, decisions (append-only, chained), events."""

import uuid
from typing import Any, NoReturn

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import models
from django.utils import timezone

from record.errors import NotAllowed
from record.naming import shouted
from record.notices.models import Channel as Channel
from record.notices.models import Delivery as Delivery
from record.notices.models import PersonalNotices as PersonalNotices
from record.notices.models import SenderTurn as SenderTurn
from record.querysets import DecisionQuerySet, EventQuerySet, KeptAnswerQuerySet, StatementQuerySet

GENESIS = "0" * 64


class Lab(models.Model):
    """A group of people who share what they run. Everything visible belongs to one."""

    name = models.CharField(max_length=120, unique=True)
    slug = models.SlugField(max_length=60, unique=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        """Refuse a short name that makes the same names of variables as another lab's: they would share secrets."""
        others = Lab.objects.exclude(pk=self.pk).values_list("slug", flat=True)
        if twin := next((slug for slug in others if shouted(slug) == shouted(self.slug)), ""):
            raise ValidationError({"slug": f"It differs too little from {twin}, another lab's: choose another."})


class Role(models.TextChoices):
    """What a member of a lab is there for."""

    VIEWER = "viewer", "viewer"
    OPERATOR = "operator", "operator"
    REVIEWER = "reviewer", "reviewer"
    ADMINISTRATOR = "administrator", "administrator"


class Membership(models.Model):
    """A person's role in a lab; one row a role."""

    lab = models.ForeignKey(Lab, on_delete=models.PROTECT, related_name="memberships")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=20, choices=Role)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["lab", "user", "role"], name="one_membership_a_role")]
        ordering = ["lab_id", "user_id", "role"]

    def __str__(self) -> str:
        return f"{self.user} is {self.role} of {self.lab}"


class AgentAccount(models.Model):
    """Marks an account as that of a program that works for one lab. It is never unmarked."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, primary_key=True, related_name="agent_account"
    )
    lab = models.ForeignKey(Lab, on_delete=models.PROTECT, related_name="agent_accounts")
    made_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="agents_made")
    made_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["user_id"]

    def __str__(self) -> str:
        return f"{self.user} of {self.lab}"


class Identified(models.Model):
    """Something that decisions and events can speak of, by a UUID that outlives it."""

    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)

    class Meta:
        abstract = True


class ActorKind(models.TextChoices):
    PERSON = "person"
    AGENT = "agent"
    POLICY = "policy"
    IMPORTED = "imported"


class Door(models.TextChoices):
    """By which way something came in."""

    WEB = "web"
    API = "api"
    ADMIN = "admin"
    CLI = "cli"
    POLICY = "policy"


class AppendOnly(models.Model):
    """A row that is written once. Its `objects` come from an AppendOnlyQuerySet."""

    class Meta:
        abstract = True

    def save(self, *args: Any, **kwargs: Any) -> None:
        if self.pk and not kwargs.get("force_insert"):
            self._refuse()
        super().save(*args, **(kwargs | {"force_insert": True}))

    def delete(self, *args: Any, **kwargs: Any) -> NoReturn:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise NotAllowed("The record is append-only: add a decision that supersedes the one you want to correct.")


class ChainHead(models.Model):
    """The end of a lab's chain; its row is locked last in every transaction that adds to the chain."""

    lab = models.OneToOneField(Lab, on_delete=models.PROTECT, primary_key=True, related_name="chain_head")
    count = models.PositiveBigIntegerField(default=0)
    digest = models.CharField(max_length=64, default=GENESIS)

    def __str__(self) -> str:
        return f"{self.lab}: {self.count} decisions"


class Decision(AppendOnly):
    """Who decided what, on which evidence. `canonical` is what the hash is over; the other columns are copies of it."""

    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    lab = models.ForeignKey(Lab, on_delete=models.PROTECT, related_name="decisions")
    number = models.PositiveBigIntegerField(help_text="position in the lab's chain, from 1, without gaps")
    at = models.DateTimeField(default=timezone.now)
    subject_kind = models.CharField(max_length=40)
    subject_uuid = models.UUIDField(db_index=True)
    subject_label = models.CharField(max_length=300, help_text="what the subject was called then")
    root_uuid = models.UUIDField(null=True, db_index=True, help_text="the run (or programme, walk) of the subject")
    gate_uuid = models.UUIDField(null=True, db_index=True)
    iteration = models.PositiveIntegerField(null=True)
    actor_kind = models.CharField(max_length=10, choices=ActorKind)
    actor = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="decisions")
    actor_name = models.CharField(max_length=200, help_text="the name as it was then")
    door = models.CharField(max_length=10, choices=Door)
    verdict = models.CharField(max_length=60)
    evidence = models.JSONField(default=dict, help_text="the digest shown, and name -> sha256 of each piece")
    config_before = models.JSONField(default=dict)
    config_after = models.JSONField(default=dict)
    supersedes = models.ForeignKey("self", null=True, on_delete=models.PROTECT, related_name="superseded_by")
    override = models.BooleanField(default=False)
    previous_digest = models.CharField(max_length=64)
    canonical = models.TextField()
    digest = models.CharField(max_length=64)

    objects = DecisionQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["lab", "number"], name="one_decision_a_number")]
        indexes = [models.Index(fields=["lab", "-at"])]
        ordering = ["-at", "-number"]

    def __str__(self) -> str:
        return f"{self.verdict} on {self.subject_label}"


class Statement(AppendOnly):
    """What was written with a decision: kept apart, so that a pasted secret can be struck and the chain still holds."""

    decision = models.OneToOneField(Decision, on_delete=models.PROTECT, primary_key=True, related_name="statement")
    salt = models.CharField(max_length=32)
    reason = models.TextField(blank=True)
    answers = models.JSONField(default=dict)
    struck_by = models.ForeignKey(Decision, null=True, on_delete=models.PROTECT, related_name="struck")

    objects = StatementQuerySet.as_manager()

    def __str__(self) -> str:
        return "(struck)" if self.struck_by_id else self.reason


class Event(models.Model):
    """Something that happened: the mechanical log. `kind` is one of record.kinds.KINDS."""

    lab = models.ForeignKey(Lab, on_delete=models.PROTECT, related_name="events")
    at = models.DateTimeField(default=timezone.now)
    kind = models.CharField(max_length=40)
    subject_kind = models.CharField(max_length=40)
    subject_uuid = models.UUIDField()
    root_uuid = models.UUIDField(null=True, help_text="the run (or programme, walk) that the subject is part of")
    message = models.CharField(max_length=1000, blank=True)
    data = models.JSONField(default=dict)
    decision = models.ForeignKey(Decision, null=True, on_delete=models.PROTECT, related_name="events")

    objects = EventQuerySet.as_manager()

    class Meta:
        indexes = [
            models.Index(fields=["root_uuid", "-id"]),
            models.Index(fields=["subject_uuid", "-id"]),
            models.Index(fields=["lab", "-id"]),
        ]
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


class KeptAnswer(models.Model):
    """The answer to a command that came under a key, for when the command is sent again (record/repeats.py)."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=200)
    fingerprint = models.CharField(max_length=64, help_text="hex SHA-256 of what came with the key")
    status = models.PositiveSmallIntegerField(null=True, help_text="null while it is being carried out")
    body = models.TextField(blank=True)
    media_type = models.CharField(max_length=60, blank=True)
    headers = models.JSONField(default=dict)
    at = models.DateTimeField(default=timezone.now)

    objects = KeptAnswerQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "key"], name="one_answer_a_key")]
        indexes = [models.Index(fields=["at"])]

    def __str__(self) -> str:
        return f"{self.key}: {self.status}"
