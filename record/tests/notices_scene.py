"""What the tests of notices begin with: channels, events, a sender."""

from typing import Any
from uuid import UUID

from django.utils import timezone

from record.models import Channel, Delivery, Event, Lab
from record.notices.sending import send_due
from record.services import Subject, record_event
from record.tests.factories import make_subject


def make_channel(lab: Lab, name: str = "room", kind: str = "email", **fields: Any) -> Channel:
    address = {"email": "lab@example.org", "matrix": "#room"}.get(kind, "")
    return Channel.objects.create(
        lab=lab, name=name, kind=kind, **({"address": address, "topics": ["conductor-log"]} | fields)
    )


def happen(lab: Lab, message: str = "run one finished", *, kind: str = "run.finish", root: UUID | None = None) -> Event:
    """Something notable happens."""
    subject = make_subject() if root is None else Subject("run", root, "run one", root)
    return record_event(lab_id=lab.pk, kind=kind, subject=subject, message=message)


def send_now() -> int:
    """Send what is due, as if every pause were over."""
    Delivery.objects.open().exclude(state="sending").update(due_at=timezone.now())
    Channel.objects.update(closed_until=None)
    return send_due()


def states() -> list[str]:
    return list(Delivery.objects.order_by("id").values_list("state", flat=True))
