"""Where notices go (channels), what a person wants to hear, and the outbox."""

import re
import uuid
import zoneinfo
from datetime import datetime, time, timedelta

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from django.utils import timezone

from record.notices.querysets import DeliveryQuerySet

CHANNEL_NAME = r"[a-z0-9]+(?:-[a-z0-9]+)*"


class ChannelKind(models.TextChoices):
    """By which way a channel sends; each has a notifier in record.notifiers."""

    EMAIL = "email", "e-mail"
    MATRIX = "matrix", "Matrix room"
    WEBHOOK = "webhook", "signed webhook"
    APPRISE = "apprise", "Apprise (chat, push and others)"


class Channel(models.Model):
    """Where notices of one lab go, or (with an owner) those of one person. It holds no secret: see notices.secrets."""

    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    lab = models.ForeignKey("record.Lab", null=True, on_delete=models.PROTECT, related_name="channels")
    owner = models.OneToOneField(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.CASCADE, related_name="notice_channel"
    )
    name = models.CharField(
        max_length=40,
        validators=[RegexValidator(rf"^{CHANNEL_NAME}\Z", "Lower-case letters and digits, joined by single hyphens.")],
        help_text="a word, by which people and settings call it: microscope-room",
    )
    kind = models.CharField(max_length=10, choices=ChannelKind)
    address = models.CharField(
        max_length=1000,
        blank=True,
        help_text="e-mail: addresses, separated by commas. Matrix: a room, #name or #name:server or !id. Webhook: an "
        "address that begins with https://. Apprise: nothing, its address is a secret",
    )
    identity = models.CharField(
        max_length=40,
        blank=True,
        default="conductor",
        validators=[RegexValidator(rf"^{CHANNEL_NAME}\Z", "Lower-case letters and digits, joined by single hyphens.")],
        help_text="Matrix: as which of the lab's bots it speaks (conductor, director, worker ...)",
    )
    topics = models.JSONField(default=list, help_text="of record.kinds.TOPICS: what it is told of")
    with_pictures = models.BooleanField(default=True, help_text="send small pictures of a gate's evidence along")
    enabled = models.BooleanField(default=True)

    failures = models.PositiveIntegerField(default=0, help_text="how often in a row it could not be reached")
    closed_until = models.DateTimeField(null=True, help_text="left alone until then")
    problem = models.CharField(max_length=1000, blank=True, help_text="what it failed with last, in words")
    sent_at = models.DateTimeField(null=True, help_text="when something was last sent there")

    class Meta:
        ordering = ["lab_id", "name"]
        constraints = [
            models.UniqueConstraint(fields=["lab", "name"], name="one_channel_a_name"),
            models.CheckConstraint(
                condition=models.Q(lab=None) ^ models.Q(owner=None), name="channel_of_a_lab_or_a_person"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.lab.slug}/{self.name}" if self.lab else f"notices of {self.owner}"

    @property
    def shown_address(self) -> str:
        """The address as everybody may see it: of a webhook, whose path mostly is a secret, the scheme and the host."""
        if self.kind != ChannelKind.WEBHOOK:
            return self.address
        scheme, _, rest = self.address.partition("://")
        host = re.split(r"[/?#]", rest, maxsplit=1)[0].rpartition("@")[2]
        return f"{scheme}://{host}/…"

    def recipients(self) -> list[str]:
        """To whom each event is sent on its own; one empty name where the channel is a single place."""
        if self.kind != ChannelKind.EMAIL or self.owner_id:
            return [""]
        return list(dict.fromkeys(filter(None, (part.strip() for part in self.address.split(",")))))


class PersonalNotices(models.Model):
    """What one person wants to hear, and when. Without a row: nothing."""

    user = models.OneToOneField(
        settings.AUTH_USER_MODEL, primary_key=True, on_delete=models.CASCADE, related_name="personal_notices"
    )
    kinds = models.JSONField(default=list, help_text="kinds of events")
    digest = models.BooleanField(default=False, help_text="once a day, in one message, instead of at once")
    digest_at = models.TimeField(default=time(8, 0))
    quiet_from = models.TimeField(null=True, blank=True)
    quiet_until = models.TimeField(null=True, blank=True)
    time_zone = models.CharField(max_length=60, default="UTC")
    remind_after_h = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(1), MaxValueValidator(24 * 14)],
        help_text="hours; again after as many more",
    )
    remind_at = models.DateTimeField(null=True, db_index=True, help_text="when gates that wait are next looked for")

    def __str__(self) -> str:
        return f"what {self.user} wants to hear"

    def sends_at(self, moment: datetime) -> datetime:
        """When what happened at `moment` is to be sent: then, at the end of the quiet hours, or with the digest."""
        if self.digest:
            return self._next(self.digest_at, moment)
        if self.is_quiet(moment) and self.quiet_until is not None:
            return self._next(self.quiet_until, moment)
        return moment

    def is_quiet(self, moment: datetime) -> bool:
        """Whether `moment` lies in the quiet hours, which may go over midnight."""
        begin, end = self.quiet_from, self.quiet_until
        if begin is None or end is None or begin == end:
            return False
        now = moment.astimezone(self.zone).time()
        return begin <= now < end if begin < end else now >= begin or now < end

    @property
    def zone(self) -> zoneinfo.ZoneInfo:
        """The person's time zone; UTC where the name in the row is none."""
        try:
            return zoneinfo.ZoneInfo(self.time_zone)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError):
            return zoneinfo.ZoneInfo("UTC")

    def _next(self, at: time, moment: datetime) -> datetime:
        """The first time after `moment` at which the person's clock shows `at`, over changes of summer time too."""
        local = moment.astimezone(self.zone)
        for days in (0, 1, 2):
            found = datetime.combine(local.date() + timedelta(days=days), at, self.zone).astimezone(
                zoneinfo.ZoneInfo("UTC")
            )
            if found > moment:
                return found
        raise AssertionError("a clock shows every time of day within two days")


class DeliveryState(models.TextChoices):
    PENDING = "pending", "to send"
    SENDING = "sending", "being sent"
    SENT = "sent", "sent"
    GIVEN_UP = "given_up", "given up"
    DROPPED = "dropped", "not sent: nobody needs it any more"


class Delivery(models.Model):
    """One event for one recipient of one channel: the outbox.

    Written in the transaction of its event; its uuid is the name under which the other side knows it, however often it
    is sent. `due_at` is when it may be sent next, and while it is being sent, until when whoever does so has time.
    """

    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    event = models.ForeignKey("record.Event", on_delete=models.CASCADE, related_name="deliveries")
    channel = models.ForeignKey(Channel, on_delete=models.CASCADE, related_name="deliveries")
    recipient = models.CharField(max_length=320, blank=True, help_text="one address of an e-mail channel")
    state = models.CharField(max_length=10, choices=DeliveryState, default=DeliveryState.PENDING)
    at = models.DateTimeField(default=timezone.now)
    due_at = models.DateTimeField(default=timezone.now)
    together = models.BooleanField(default=False, help_text="sent in one message with all others that are due by then")
    batch = models.UUIDField(null=True, help_text="the message of several that it went into")
    claim = models.UUIDField(null=True, help_text="of whoever sends it, anew for each attempt")
    attempts = models.PositiveIntegerField(default=0)
    doubtful = models.BooleanField(default=False, help_text="an earlier attempt may have arrived; nobody can say")
    ended_at = models.DateTimeField(null=True)
    remote_id = models.CharField(max_length=300, blank=True, help_text="by which the other side knows it")
    error = models.CharField(max_length=1000, blank=True, help_text="what the last attempt came to, in words")

    objects = DeliveryQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        verbose_name_plural = "deliveries"
        constraints = [
            models.UniqueConstraint(fields=["event", "channel", "recipient"], name="one_delivery_a_recipient")
        ]
        indexes = [
            # A plain NULL test, as for gates in progress: SQLite sees that it is implied.
            models.Index(fields=["due_at", "id"], condition=models.Q(ended_at=None), name="delivery_due"),
            models.Index(fields=["channel", "-id"]),
            models.Index(fields=["event"], condition=models.Q(state="given_up"), name="delivery_given_up"),
            models.Index(fields=["batch"], condition=models.Q(ended_at=None), name="delivery_batch"),
        ]

    def __str__(self) -> str:
        return f"{self.event} to {self.recipient or self.channel}"

    @property
    def is_ended(self) -> bool:
        return self.ended_at is not None


class SenderTurn(models.Model):
    """Who sends now: one row. One sender at a time, so that a mail server that hangs holds one worker, never two."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    holder = models.UUIDField(null=True)
    until = models.DateTimeField(null=True)
    nudged_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"sending until {self.until}" if self.holder else "nobody sends"
