"""What notices show of a gate: its page, what is suggested, small pictures of its evidence; whom it still concerns."""

import logging
from collections.abc import Iterable
from datetime import datetime, timedelta
from io import BytesIO
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction
from django.urls import reverse
from django.utils import timezone

from gates.inbox import waiting_for
from gates.models import Evidence, EvidenceKind, Gate
from gates.showing import summary
from gates.states import GateState
from gates.store import read_evidence
from jobs.patience import Patience
from record.models import Delivery, Event, PersonalNotices
from record.notices.outbox import owed_to
from record.notices.sights import Sight
from record.notifiers import Picture
from record.services import record_event

log = logging.getLogger(__name__)

PICTURES = 4
SIDE_PX = 480
LARGEST_PX = 24_000_000  # of a picture that is made smaller here: decoding takes 4 bytes for each
ASKING = frozenset({"gate.open", "gate.escalate", "gate.delegate", "gate.remind", "gate.reopen"})
_patience = Patience(longest_s=300)


class GateLooker:
    """See record.notices.sights.Looker."""

    def look(self, uuid: UUID, *, pictures: bool) -> Sight:
        gate = Gate.objects.filter(uuid=uuid).first()
        if gate is None:
            return Sight()
        return Sight(
            path=reverse("gates:detail", args=[gate.pk]),
            lines=tuple(_lines(gate)),
            pictures=tuple(thumbnails(gate)) if pictures and gate.state == GateState.OPEN else (),
        )

    def needless(self, event: Event, reader: User | None) -> str:
        if event.kind not in ASKING:
            return ""
        gate = Gate.objects.filter(uuid=event.subject_uuid).first()
        if gate is None or gate.is_ended or gate.state not in (GateState.OPEN, GateState.PREPARING):
            return "The gate has been answered in the meantime." if event.kind != "gate.reopen" else ""
        if reader is not None and event.kind != "gate.reopen" and gate not in waiting_for(reader):
            return "The gate does not wait for its reader."
        return ""


GATE = GateLooker()


def remind_waiting() -> int:
    """Remind those who asked for it of gates that have waited for them long enough; how many people were looked at."""
    due = PersonalNotices.objects.filter(remind_at__lte=timezone.now(), user__is_active=True)
    return _patience.each(due.order_by("remind_at").values_list("pk", flat=True), _remind)


def thumbnails(gate: Gate) -> Iterable[Picture]:
    """The first pictures of the gate's evidence, one an item, at most SIDE_PX a side; without what can't be read."""
    kinds = [EvidenceKind.IMAGE, EvidenceKind.CURVE]
    shown: dict[str, Evidence] = {}
    for piece in gate.evidence.filter(kind__in=kinds).order_by("name"):
        shown.setdefault(piece.item or piece.name, piece)
        if len(shown) == PICTURES:
            break
    for piece in shown.values():
        try:
            picture = _small(piece)
        except Exception as error:  # a damaged picture makes a decoder raise what it likes, and the notice still goes
            log.warning("evidence %s is left out of a notice: %s (%s)", piece.name, error, type(error).__name__)
            continue
        if picture:
            yield picture


def _remind(user_id: int) -> int:
    now = timezone.now()
    due = PersonalNotices.objects.filter(pk=user_id, remind_at__lte=now)
    wish = due.select_related("user__notice_channel").first()
    if wish is None:
        return 0
    if wish.remind_after_h is None:
        return PersonalNotices.objects.filter(pk=user_id).update(remind_at=None)
    if wish.is_quiet(now):
        return PersonalNotices.objects.filter(pk=user_id, remind_at=wish.remind_at).update(remind_at=_after(wish))
    long_ago = now - timedelta(hours=wish.remind_after_h)
    waiting = [gate for gate in waiting_for(wish.user) if gate.opened_at and gate.opened_at <= long_ago]
    with transaction.atomic():
        mine = PersonalNotices.objects.filter(pk=user_id, remind_at=wish.remind_at)
        if mine.update(remind_at=now + timedelta(hours=wish.remind_after_h if waiting else 1)) != 1:
            return 0  # another was first, or the person changed their mind
        for gate in waiting:
            _owe_reminder(gate, wish)
    return 1


def _owe_reminder(gate: Gate, wish: PersonalNotices) -> None:
    event = record_event(
        lab_id=gate.lab_id,
        kind="gate.remind",
        subject=gate.subject(),
        message=f"{gate.title}, {gate.context}: waits for you",
        data={"reader": wish.user.get_username()},
    )
    Delivery.objects.bulk_create([owed_to(wish, event, at_once=True)])


def _after(wish: PersonalNotices) -> datetime:
    """When the quiet hours are over."""
    return wish.sends_at(timezone.now()) if not wish.digest else timezone.now() + timedelta(minutes=30)


def _lines(gate: Gate) -> Iterable[str]:
    if gate.state == GateState.OPEN:
        if words := summary(gate.suggestion):
            yield words
        if gate.due_at:
            yield f"Due {gate.due_at:%Y-%m-%d %H:%M} UTC."
    if gate.error and gate.state in (GateState.PREPARE_FAILED, GateState.APPLY_FAILED):
        yield gate.error


def _small(piece: Evidence) -> Picture | None:
    """The piece at most SIDE_PX a side; None where it is too large to be decoded here."""
    from PIL import Image

    with Image.open(BytesIO(read_evidence(piece)), formats=["PNG", "JPEG"]) as image:
        if image.width * image.height > LARGEST_PX:
            return None
        image.thumbnail((SIDE_PX, SIDE_PX))
        grey = image.mode in ("L", "I", "I;16", "F", "1")
        small = image.convert("L" if grey else "RGB")
    out = BytesIO()
    small.save(out, "PNG", optimize=True)
    name = piece.name.replace("/", "_").rsplit(".", 1)[0]
    caption = piece.title or piece.caption or piece.name
    caption = f"{piece.item}: {caption}" if piece.item and piece.item not in caption else caption
    return Picture(f"{name}.png", caption, "image/png", out.getvalue(), small.width, small.height)
