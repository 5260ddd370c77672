"""What is owed to whom: written in the transaction of its event, with no word to anybody yet."""

from datetime import datetime
from typing import TYPE_CHECKING

from django.db.models import Q

from record.kinds import KINDS
from record.notices.models import Channel, Delivery, PersonalNotices

if TYPE_CHECKING:
    from record.models import Event


def owe_deliveries(event: "Event") -> list[Delivery]:
    """Write what is owed for `event`: a delivery for each recipient of each channel of its lab that wants its topic,
    and for each member who wants its kind. Two queries, and a third where anything is owed."""
    topic = KINDS[event.kind].topic
    owed = [
        Delivery(event=event, channel=channel, recipient=recipient, at=event.at, due_at=event.at)
        for channel in Channel.objects.filter(lab_id=event.lab_id, enabled=True)
        if topic in channel.topics
        for recipient in channel.recipients()
    ]
    owed += [owed_to(wish, event) for wish in _members(event.lab_id) if event.kind in wish.kinds]
    return Delivery.objects.bulk_create(owed) if owed else []


def owed_to(wish: PersonalNotices, event: "Event", *, at_once: bool = False) -> Delivery:
    """What is owed to one person for `event`, when they want to hear of it (not saved); what waits comes together."""
    due_at: datetime = event.at if at_once else wish.sends_at(event.at)
    return Delivery(
        event=event, channel=wish.user.notice_channel, at=event.at, due_at=due_at, together=at_once or due_at > event.at
    )


def _members(lab_id: int) -> list[PersonalNotices]:
    wishes = PersonalNotices.objects.filter(
        Q(user__memberships__lab_id=lab_id), user__is_active=True, user__notice_channel__enabled=True
    )
    return list(wishes.select_related("user__notice_channel").distinct())
