"""What a message says. All that leaves goes through the redactor here, and nowhere else."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC

from django.conf import settings
from django.urls import get_script_prefix

from record.kinds import KINDS
from record.notices.models import Delivery
from record.notices.sights import Sight, look_at
from record.notifiers import Item, Message, Picture
from record.redaction import redact
from record.values import unturned, visible_text

PICTURES = 4
LINE_CHARS = 1000


def message_of(deliveries: Sequence[Delivery]) -> Message:
    """One message for deliveries of one channel, oldest first. Their events come with their labs."""
    first = deliveries[0]
    channel = first.channel
    sights = [look_at(each.event, pictures=channel.with_pictures and len(deliveries) == 1) for each in deliveries]
    items = tuple(_item(each, sight) for each, sight in zip(deliveries, sights, strict=True))
    roots = {each.event.root_uuid for each in deliveries}
    lab = first.event.lab.name
    several = f"{len(items)} notices" if len(items) > 1 else items[0].title
    return Message(
        uuid=first.batch or first.uuid,
        subject=_line(f"[{lab}] {several}" if len({each.event.lab_id for each in deliveries}) == 1 else several),
        items=items,
        pictures=_apart(sights[0].pictures[:PICTURES]),
        thread=roots.pop() if len(roots) == 1 else None,
        doubtful=any(each.doubtful for each in deliveries),
    )


def link_to(path: str) -> str:
    """The whole address of a page; "" where the settings don't say how people reach the site."""
    if not settings.BASE_URL or not path:
        return ""
    below = path.removeprefix(get_script_prefix().rstrip("/"))
    return f"{settings.BASE_URL}/{below.lstrip('/')}"


def _item(delivery: Delivery, sight: Sight) -> Item:
    event = delivery.event
    decision = event.decision
    facts = {
        "kind": event.kind,
        "lab": event.lab.slug,
        "subject_kind": event.subject_kind,
        "subject": str(event.subject_uuid),
        "run": str(event.root_uuid) if event.root_uuid else None,
        "decision": str(decision.uuid) if decision else None,
        "event": event.pk,
        "at": event.at.astimezone(UTC).isoformat(),
    }
    return Item(
        title=_line(event.message) or KINDS[event.kind].label,
        lines=tuple(words for line in sight.lines if (words := _line(line))),
        link=link_to(sight.path),
        at=event.at.astimezone(UTC),
        topic=KINDS[event.kind].topic if event.kind in KINDS else "",
        facts=facts,
    )


def _line(text: str) -> str:
    """`text` in one line, as it may be shown elsewhere: whoever had a hand in it (a program, an agent, the name of a
    file) can't put a line of their own below ours, nor turn or hide what is read."""
    return redact(visible_text(unturned(" ".join(text.split())).strip()))[:LINE_CHARS]


def _apart(pictures: Sequence[Picture]) -> tuple[Picture, ...]:
    """With captions that differ, redacted like all else."""
    seen: dict[str, int] = {}
    found = []
    for picture in pictures:
        caption = _line(picture.caption)
        seen[caption] = seen.get(caption, 0) + 1
        found.append(replace(picture, caption=caption if seen[caption] == 1 else f"{caption} ({seen[caption]})"))
    return tuple(found)
