"""What people do with notices: set up channels, say what they want to hear, try a channel, send again."""

import zoneinfo
from dataclasses import dataclass, field
from datetime import time, timedelta
from typing import Any
from uuid import uuid4

from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.utils import timezone

from record.access import Ability, require
from record.errors import BadInput, InvalidTransition, NotAllowed
from record.kinds import KINDS, TOPICS
from record.models import Channel, Delivery, PersonalNotices
from record.notices.models import ChannelKind, DeliveryState
from record.notices.places import place_of
from record.notifiers import Item, Message, SendFailure, Sent, notifier
from record.notifiers.webhook import split
from record.services import Author, Subject, record_event

CHANNEL_FIELDS = ("kind", "address", "identity", "topics", "with_pictures", "enabled")
HEALTH_FIELDS = ("failures", "closed_until", "problem")  # a change begins anew; `sent_at` is the sender's alone


@dataclass(frozen=True)
class Wishes:
    """What a person wants to hear, and when; times are of their own zone. `remind_after_h`: hours, None for never."""

    kinds: list[str] = field(default_factory=list)
    digest: bool = False
    digest_at: time = time(8, 0)
    quiet_from: time | None = None
    quiet_until: time | None = None
    time_zone: str = "UTC"
    remind_after_h: int | None = None


def save_channel(*, lab_id: int, author: Author, name: str, channel: Channel | None = None, **values: Any) -> Channel:
    """Make a channel of the lab, or change one; for administrators. The log of events says who did.

    Raises NotAllowed for others, BadInput in words for an address that is none, a topic that there is not, a name that
    is taken. What is owed over a channel that is switched off is dropped.
    """
    _require_administrator(author, lab_id)
    row = channel or Channel(lab_id=lab_id)
    if row.lab_id != lab_id:
        raise BadInput("The channel belongs to another lab.")
    for key, value in ({"name": name} | values).items():
        if key not in (*CHANNEL_FIELDS, "name"):
            raise BadInput(f"A channel has no {key}.")
        setattr(row, key, value)
    _check(row)
    was_new = row.pk is None
    with transaction.atomic():
        try:
            row.failures, row.closed_until, row.problem = 0, None, ""
            row.save(update_fields=None if was_new else ["name", *CHANNEL_FIELDS, *HEALTH_FIELDS])
        except IntegrityError as error:
            raise BadInput(f"The lab has a channel called {name} already.") from error
        if not row.enabled:
            _drop(row, "The channel was switched off.")
        record_event(
            lab_id=lab_id,
            kind="channel.change",
            subject=subject_of(row),
            message=f"Channel {row.name} {'made' if was_new else 'changed'} by {author.name}",
            data={"kind": row.kind, "address": row.shown_address, "topics": row.topics, "enabled": row.enabled},
        )
    return row


def try_channel(*, channel: Channel, author: Author) -> Delivery:
    """Owe the channel a message that says that it works; sent like any other, by the outbox."""
    if channel.lab_id is None:
        raise BadInput("A person's own notices are tried with manage.py notify_test.")
    _require_administrator(author, channel.lab_id)
    if not channel.enabled:
        raise BadInput(f"{channel} is switched off: switch it on first.")
    with transaction.atomic():
        event = record_event(
            lab_id=channel.lab_id,
            kind="notice.test",
            subject=subject_of(channel),
            message=f"This is a test of the channel {channel.name}, asked for by {author.name}.",
        )
        owed = [Delivery(event=event, channel=channel, recipient=recipient) for recipient in channel.recipients()]
        Channel.objects.filter(pk=channel.pk).update(closed_until=None)
        return Delivery.objects.bulk_create(owed)[0]


def send_test(channel: Channel, *, asked_by: str) -> list[tuple[str, Sent | SendFailure]]:
    """Send a test over the channel now, past the outbox: (recipient, what became of it) for each."""
    item = Item(
        title=f"This is a test of {channel}, asked for by {asked_by}.",
        lines=("If you can read it, the channel works.",),
        link="",
        at=timezone.now(),
        topic="",
        facts={"kind": "notice.test"},
    )
    found: list[tuple[str, Sent | SendFailure]] = []
    for recipient in channel.recipients():
        try:
            message = Message(uuid4(), item.title, (item,))
            found.append((recipient, notifier(channel.kind)(message, place_of(channel, recipient))))
        except SendFailure as failure:
            found.append((recipient, failure))
    return found


def retry_delivery(*, delivery: Delivery, author: Author) -> None:
    """Send again what was given up, at once and under the same id; for operators. InvalidTransition for all else."""
    lab_id = delivery.event.lab_id
    if author.user is None:
        raise BadInput("Only a person can have a notice sent again.")
    require(author.user, Ability.OPERATE, lab_id)
    now = timezone.now()
    with transaction.atomic():
        given_up = Delivery.objects.filter(pk=delivery.pk, state=DeliveryState.GIVEN_UP)
        if given_up.update(state=DeliveryState.PENDING, ended_at=None, due_at=now, at=now, claim=None) != 1:
            raise InvalidTransition("Only a notice that was given up can be sent again; look again at what it is now.")
        Channel.objects.filter(pk=delivery.channel_id).update(closed_until=None)
        record_event(
            lab_id=lab_id,
            kind="notice.retry",
            subject=subject_of(delivery.channel),
            message=f"Notice to {delivery.recipient or delivery.channel} sent again, asked for by {author.name}",
            data={"delivery": str(delivery.uuid)},
        )


def doubt_open() -> int:
    """Say of all notices that are owed that they may have arrived, after the database was put back; how many."""
    return Delivery.objects.open().update(doubtful=True)


def save_wishes(*, user: User, wishes: Wishes) -> PersonalNotices:
    """Keep what a person wants to hear. BadInput, in words, for kinds that nobody is told of, or a lone quiet time."""
    unknown = [kind for kind in wishes.kinds if not (kind in KINDS and KINDS[kind].notable)]
    if unknown:
        raise BadInput(f"Nobody is told of {', '.join(unknown)}.")
    if (wishes.quiet_from is None) != (wishes.quiet_until is None):
        raise BadInput("Quiet hours need a beginning and an end; leave both empty for none.")
    if wishes.time_zone not in zoneinfo.available_timezones():
        raise BadInput(f"There is no time zone {wishes.time_zone}: write Europe/Zurich, or UTC.")
    if wishes.kinds and not user.email:
        raise BadInput("You have no e-mail address yet, so nothing can be sent. Ask an administrator to enter one.")
    remind_at = timezone.now() + timedelta(hours=wishes.remind_after_h) if wishes.remind_after_h else None
    with transaction.atomic():
        Channel.objects.get_or_create(owner=user, defaults={"name": "personal", "kind": ChannelKind.EMAIL})
        row, _ = PersonalNotices.objects.update_or_create(
            user=user,
            defaults={name: getattr(wishes, name) for name in wishes.__dataclass_fields__} | {"remind_at": remind_at},
        )
    return row


def wishes_of(user: User) -> Wishes:
    """What the person wants to hear; for one who never said, what most would want to be offered, not yet kept."""
    row = PersonalNotices.objects.filter(user=user).first()
    if row is None:
        return Wishes(kinds=["gate.open", "gate.escalate", "phase.fail", "run.finish"])
    return Wishes(**{name: getattr(row, name) for name in Wishes.__dataclass_fields__})


def subject_of(channel: Channel) -> Subject:
    """The channel as events name it."""
    return Subject("channel", channel.uuid, f"channel {channel.name}")


def _check(row: Channel) -> None:
    topics = row.topics if isinstance(row.topics, list) else []
    unknown = [str(topic) for topic in topics if topic not in TOPICS]
    if unknown or topics != row.topics:
        raise BadInput(f"There is no topic {', '.join(unknown)}: it is one of {', '.join(TOPICS)}.")
    row.topics = [topic for topic in TOPICS if topic in topics]
    row.address = row.address.strip()
    if row.kind == ChannelKind.WEBHOOK:
        try:
            split(row.address)
        except SendFailure as failure:
            raise BadInput(failure.message) from failure
    elif row.kind == ChannelKind.EMAIL and not row.recipients():
        raise BadInput("An e-mail channel needs an address.")
    elif row.kind == ChannelKind.MATRIX and not row.address:
        raise BadInput("A Matrix channel needs a room: #name, #name:server or !id.")
    elif row.kind == ChannelKind.APPRISE:
        row.address = ""  # it holds passwords, so it is kept as a secret
    _check_recipients(row)
    try:
        row.clean_fields(exclude={each.name for each in row._meta.fields} - {"name", "kind", "address", "identity"})
    except ValidationError as error:
        raise BadInput(" ".join(f"{name}: {' '.join(words)}" for name, words in error.message_dict.items())) from error


def _check_recipients(row: Channel) -> None:
    from django.core.validators import validate_email

    for address in row.recipients() if row.kind == ChannelKind.EMAIL else []:
        try:
            validate_email(address)
        except ValidationError as error:
            raise BadInput(f"{address} is no e-mail address.") from error


def _drop(channel: Channel, why: str) -> None:
    waiting = Delivery.objects.open().filter(channel=channel, state=DeliveryState.PENDING)
    waiting.update(state=DeliveryState.DROPPED, ended_at=timezone.now(), error=why)


def _require_administrator(author: Author, lab_id: int) -> None:
    if author.user is None:
        raise NotAllowed("Only a person can change channels.")
    require(author.user, Ability.OVERRIDE, lab_id)
