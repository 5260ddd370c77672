"""What became of a run, decisions and events in one line."""

from heapq import merge
from itertools import islice
from uuid import UUID

from record.models import Decision, Event


def timeline(root: UUID, *, limit: int = 200) -> list[Decision | Event]:
    """The newest `limit` decisions and events about a run and all that is part of it, newest first."""
    decisions = Decision.objects.about(root).in_full().order_by("-at", "-number")[:limit]
    events = Event.objects.part_of(root).select_related("decision").order_by("-at", "-id")[:limit]
    return list(islice(merge(decisions, events, key=lambda row: row.at, reverse=True), limit))
