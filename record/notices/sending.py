"""Sends what is due: claimed in one short transaction, sent outside any, written by compare-and-set.

One sender at a time, each message in a thread of its own that touches no database: a server that hangs delays neither
work nor the other channels. A delivery whose sender died is taken up again once its time is over, marked as doubtful:
it may have arrived. What the other side recognises by its uuid (Matrix) arrives once all the same.
"""

import logging
import queue
import random
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID, uuid4

from django.conf import settings
from django.db import transaction
from django.db.models import BooleanField, Case, F, Q, QuerySet, Value, When
from django.utils import timezone

from record.access import Ability, can
from record.errors import ConductorError
from record.faults import point
from record.notices.compose import message_of
from record.notices.models import Channel, ChannelKind, Delivery, DeliveryState, SenderTurn
from record.notices.places import place_of
from record.notices.sights import needless
from record.notifiers import Message, SendFailure, Sent, Where, notifier
from record.redaction import redact
from record.values import visible_text

log = logging.getLogger(__name__)

NUDGE_AGAIN_S = 10
TURN_S = 45.0  # then the rest is left to the next task
AT_ONCE = 8  # channels at a time
OF_A_KIND = 4  # so that the others have room when a kind's server hangs
TRIED_A_TURN = 50  # deliveries that turn out to be needless, before the next look at what is under way
TOGETHER = 200  # deliveries in one message
FIRST_WAIT_S, LONGEST_WAIT_S, LONGEST_CLOSED_S = 5, 3600, 600

Outcome = Sent | SendFailure


@dataclass(frozen=True)
class Parcel:
    """What one claim holds: deliveries of one channel that go in one message."""

    claim: UUID
    channel: Channel
    message: Message
    where: Where


def nudge_sender() -> int:
    """Have the task cluster send what is due, unless somebody does; 1 where it was. One query where nothing is due."""
    if not Delivery.objects.due().exists():
        return 0
    from django_q.tasks import async_task

    now = timezone.now()
    with transaction.atomic():
        SenderTurn.objects.get_or_create(pk=1)
        idle = SenderTurn.objects.filter(Q(holder=None) | Q(until__lte=now), pk=1)
        idle = idle.filter(Q(nudged_at=None) | Q(nudged_at__lte=now - timedelta(seconds=NUDGE_AGAIN_S)))
        if idle.update(nudged_at=now) != 1:
            return 0
        async_task("record.tasks.send_due", q_options={"save": False, "timeout": settings.Q_CLUSTER["timeout"]})
    return 1


def send_due() -> int:
    """Send what is due now; how many deliveries were sent. Nothing where another does so."""
    holder = uuid4()
    if not _take_turn(holder):
        return 0
    try:
        return _Turn(holder).run()
    finally:
        SenderTurn.objects.filter(pk=1, holder=holder).update(holder=None, until=None, nudged_at=None)


class _Turn:
    """One sender's work."""

    def __init__(self, holder: UUID) -> None:
        self.holder = holder
        self.done: queue.SimpleQueue[tuple[UUID, Outcome]] = queue.SimpleQueue()
        self.under_way: dict[UUID, tuple[Parcel, float]] = {}
        self.sent = 0

    def run(self) -> int:
        begun = time.monotonic()
        while True:
            if time.monotonic() - begun < TURN_S:
                self._begin_more()
            if not self.under_way:
                return self.sent
            self._take_outcomes()
            self._leave_hung()

    def _begin_more(self) -> None:
        while (parcel := self._next_parcel()) is not None:
            self.under_way[parcel.claim] = (parcel, time.monotonic())
            threading.Thread(target=self._send, args=(parcel,), daemon=True, name="notice").start()

    def _next_parcel(self) -> Parcel | None:
        """Claim for a channel that nothing is under way for; None where there is none, or no room."""
        if len(self.under_way) >= AT_ONCE or not _keep_turn(self.holder):
            return None
        busy = [parcel.channel for parcel, _ in self.under_way.values()]
        kinds = [channel.kind for channel in busy]
        full = [kind for kind in set(kinds) if kinds.count(kind) >= OF_A_KIND]
        for _ in range(TRIED_A_TURN):
            due = Delivery.objects.due().exclude(channel__in=busy).exclude(channel__kind__in=full)
            first = due.order_by("id").first()
            if first is None:
                return None
            claim = _claim(first)
            point("notice_claimed", first.batch or first.uuid)
            if claim is not None and (parcel := _pack(claim)) is not None:
                return parcel
        return None

    def _send(self, parcel: Parcel) -> None:
        """In a thread: no database here."""
        try:
            outcome: Outcome = notifier(parcel.channel.kind)(parcel.message, parcel.where)
        except SendFailure as failure:
            outcome = failure
        except Exception as error:
            log.exception("notice %s failed in a way that nobody foresaw", parcel.message.uuid)
            outcome = SendFailure(f"Sending failed unexpectedly ({type(error).__name__}).", unknown=True)
        point("notice_sent", parcel.message.uuid)
        self.done.put((parcel.claim, outcome))

    def _take_outcomes(self) -> None:
        try:
            claim, outcome = self.done.get(timeout=0.5)
        except queue.Empty:
            return
        if claim in self.under_way:
            parcel, _ = self.under_way.pop(claim)
            self.sent += _write(parcel, outcome)
            point("notice_written", parcel.message.uuid)

    def _leave_hung(self) -> None:
        """A thread that does not come back within half the lease is left to itself: its word no longer counts."""
        patience_s = settings.NOTICE_LEASE_S / 2
        for claim, (parcel, begun) in list(self.under_way.items()):
            if time.monotonic() - begun > patience_s:
                del self.under_way[claim]
                words = f"No answer within {patience_s:.0f} s."
                _write(parcel, SendFailure(words, everywhere=True, unknown=True))


def _take_turn(holder: UUID) -> bool:
    now = timezone.now()
    SenderTurn.objects.get_or_create(pk=1)
    free = SenderTurn.objects.filter(Q(holder=None) | Q(until__lte=now), pk=1)
    return free.update(holder=holder, until=now + _lease()) == 1


def _keep_turn(holder: UUID) -> bool:
    return SenderTurn.objects.filter(pk=1, holder=holder).update(until=timezone.now() + _lease()) == 1


def _lease() -> timedelta:
    return timedelta(seconds=settings.NOTICE_LEASE_S)


def _claim(first: Delivery) -> UUID | None:
    """Claim a delivery, or all that are due together with it; None where another was first."""
    claim = uuid4()
    with transaction.atomic():
        keys = _companions(first) if first.together else [first.pk]
        taken = Delivery.objects.filter(pk__in=keys, ended_at=None, due_at__lte=timezone.now()).update(
            claim=claim,
            doubtful=Case(
                When(state=DeliveryState.SENDING, then=Value(True)), default=F("doubtful"), output_field=BooleanField()
            ),
            state=DeliveryState.SENDING,
            due_at=timezone.now() + _lease(),
            attempts=F("attempts") + 1,
            batch=(first.batch or uuid4()) if first.together else None,
        )
    return claim if taken else None


def _companions(first: Delivery) -> list[int]:
    """Those that go in one message with it: the same ones again once they have been tried together."""
    due = Delivery.objects.due().filter(channel=first.channel_id, together=True, batch=first.batch)
    return list(due.order_by("id").values_list("pk", flat=True)[:TOGETHER])


def _pack(claim: UUID) -> Parcel | None:
    """The message of what was claimed, without what nobody needs; None where nothing is left, or it failed."""
    mine = Delivery.objects.filter(claim=claim, state=DeliveryState.SENDING)
    rows = list(mine.select_related("event__lab", "event__decision", "channel__owner", "channel__lab").order_by("id"))
    if not rows:
        return None
    channel = rows[0].channel
    try:
        wanted = [delivery for delivery in rows if not _dropped(delivery)]
        if not wanted:
            return None
        return Parcel(claim, channel, message_of(wanted), place_of(channel, wanted[0].recipient))
    except SendFailure as failure:
        outcome = failure
    except ConductorError as error:
        outcome = SendFailure(f"It can't be written: {error.message}")
    except Exception as error:
        log.exception("notice of claim %s can't be composed", claim)
        outcome = SendFailure(f"It can't be written ({type(error).__name__}); the log says more.")
    _write_failure(mine, channel, outcome)
    return None


def _dropped(delivery: Delivery) -> bool:
    """Whether it was dropped: its channel is off, its reader may not see it, or it is of no use any more."""
    reader = delivery.channel.owner
    if not delivery.channel.enabled:
        why = "The channel was switched off."
    elif delivery.event.kind == "notice.test":
        return False
    elif reader is not None and not can(reader, Ability.VIEW, delivery.event.lab_id):
        why = "Its reader is no longer a member of the lab."
    else:
        why = needless(delivery.event, reader)
    if not why:
        return False
    mine = Delivery.objects.filter(pk=delivery.pk, claim=delivery.claim, state=DeliveryState.SENDING)
    mine.update(state=DeliveryState.DROPPED, ended_at=timezone.now(), error=why[:1000], batch=None)
    return True


def _write(parcel: Parcel, outcome: Outcome) -> int:
    """Write what became of a claim, if it is still the claim; how many deliveries were sent."""
    mine = Delivery.objects.filter(claim=parcel.claim, state=DeliveryState.SENDING)
    secrets = parcel.where.secrets()
    if isinstance(outcome, SendFailure):
        _write_failure(mine, parcel.channel, outcome, secrets)
        return 0
    now = timezone.now()
    with transaction.atomic():
        sent = mine.update(
            state=DeliveryState.SENT,
            ended_at=now,
            remote_id=visible_text(outcome.remote_id)[:300],
            error=visible_text(redact(outcome.note, secrets))[:1000],
        )
        Channel.objects.filter(pk=parcel.channel.pk).update(sent_at=now)
        ill = Channel.objects.filter(_neighbours(parcel.channel)).exclude(failures=0, problem="", closed_until=None)
        ill.update(failures=0, problem="", closed_until=None)
    return sent


def _write_failure(
    mine: QuerySet[Delivery], channel: Channel, failure: SendFailure, secrets: Iterable[str] = ()
) -> None:
    """Leave it for later, or give it up: visibly, with a line in the log of events."""
    words = visible_text(redact(failure.message, secrets))[:1000]  # what the other side said of itself is among them
    with transaction.atomic():
        for delivery in mine.select_related("event__lab", "channel"):
            _settle(delivery, failure, words)
        if failure.everywhere:
            _close(channel, failure, words)
    log.warning("notices over %s: %s", channel, words)


def _settle(delivery: Delivery, failure: SendFailure, words: str) -> None:
    now = timezone.now()
    old = now - delivery.at > timedelta(hours=settings.NOTICE_GIVE_UP_H)
    same = Delivery.objects.filter(pk=delivery.pk, claim=delivery.claim, state=DeliveryState.SENDING)
    doubtful = delivery.doubtful or failure.unknown
    if failure.transient and not old:
        # Where the place as a whole can't be reached it is the channel that waits, and all go on when it is open again.
        wait = timedelta(seconds=0 if failure.everywhere else _wait_s(failure, delivery.attempts))
        same.update(state=DeliveryState.PENDING, due_at=now + wait, error=words, doubtful=doubtful)
    elif same.update(state=DeliveryState.GIVEN_UP, ended_at=now, error=words, doubtful=doubtful):
        _note_given_up(delivery, words)


def _note_given_up(delivery: Delivery, words: str) -> None:
    from record.services import Subject, record_event

    event = delivery.event
    record_event(
        lab_id=event.lab_id,
        kind="notice.give_up",
        subject=Subject("channel", delivery.channel.uuid, f"notice to {delivery.channel}", event.root_uuid),
        message=f"Notice to {delivery.recipient or delivery.channel} given up: {words}",
        data={"delivery": str(delivery.uuid), "event": event.pk},
    )


def _wait_s(failure: SendFailure, attempts: int) -> float:
    """Seconds until the next attempt: what the other side asks for, or longer each time; with jitter."""
    wait_s = _wished_s(failure) or min(LONGEST_WAIT_S, FIRST_WAIT_S * 2 ** min(attempts - 1, 12))
    return min(LONGEST_WAIT_S, wait_s) * random.uniform(1.0, 1.3)  # noqa: S311 - jitter, no secret


def _wished_s(failure: SendFailure) -> float:
    """What the other side asks for, where that is a time."""
    return failure.wait_s if failure.wait_s is not None and failure.wait_s > 0 else 0.0


def _close(channel: Channel, failure: SendFailure, words: str) -> None:
    """Leave the channel alone for a time that grows; those that go by the same mail server with it."""
    failures = Channel.objects.filter(pk=channel.pk).values_list("failures", flat=True).first() or 0
    wait_s = _wished_s(failure) or min(LONGEST_CLOSED_S, FIRST_WAIT_S * 2 ** min(failures, 8))
    until = timezone.now() + timedelta(seconds=min(LONGEST_WAIT_S, wait_s) * random.uniform(1.0, 1.2))  # noqa: S311
    Channel.objects.filter(_neighbours(channel)).update(failures=failures + 1, closed_until=until, problem=words)


def _neighbours(channel: Channel) -> Q:
    """The channels that share their fate with this one."""
    return Q(kind=ChannelKind.EMAIL) if channel.kind == ChannelKind.EMAIL else Q(pk=channel.pk)
