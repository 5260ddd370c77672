"""Copies of what was written with a decision: struck wherever they stand, when it is struck from the record.

Messages of the log end with the reason that was given. What upper rooms keep of it (a ballot, why a phase was skipped)
they clear themselves: each registers a function of the decision and its reason, called in the striking's transaction.
"""

from collections.abc import Callable

from django.db.models import Q
from django.utils.module_loading import import_string

from record.models import Decision, Event
from record.values import visible_text

STRUCK = "(struck)"
TELLING = 100  # so many first characters tell a reason; messages are cut, and the rest may be missing

_PLACES: list[str] = []


def register(place: str) -> None:
    """Say where a function is that clears an app's copies: "module:attribute". It is imported when it is needed."""
    if place not in _PLACES:
        _PLACES.append(place)


def clear_copies(decision: Decision, reason: str) -> None:
    """Strike what messages and upper rooms repeat of `reason`, which was given with `decision`."""
    if reason:
        _clear_events(decision, reason)
    for place in _PLACES:
        clear: Callable[[Decision, str], None] = import_string(place.replace(":", "."))
        clear(decision, reason)


def shorn(text: str, reason: str) -> str:
    """`text` without `reason`, which follows a colon in it, and all that comes after; as it is where it has none."""
    before, found, _ = text.partition(_mark(reason))
    return f"{before}: {STRUCK}" if found else text


def repeats(field: str, reason: str) -> Q:
    """Rows whose text `field` repeats `reason` as `shorn` finds it."""
    return Q(**{f"{field}__contains": _mark(reason)})


def _mark(reason: str) -> str:
    return f": {visible_text(reason).strip()[:TELLING]}"


def _clear_events(decision: Decision, reason: str) -> None:
    about = Q(decision=decision) | Q(subject_uuid=decision.subject_uuid)
    if decision.root_uuid:
        about |= Q(root_uuid=decision.root_uuid)
    for event in Event.objects.filter(about, repeats("message", reason), lab_id=decision.lab_id):
        event.message = shorn(event.message, reason)
        event.save(update_fields=["message"])
