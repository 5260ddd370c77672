"""How what an event is about looks to people: its page, what else to say, pictures. The rooms above know.

Registered by import string from an `AppConfig.ready()`: `register("gate", "gates.noticing:GATE")`.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from django.contrib.auth.models import User

from record.notifiers import Picture
from record.registry import Registry

if TYPE_CHECKING:
    from record.models import Event

_registry = Registry("what notices show of a kind of subject")
register = _registry.register


@dataclass(frozen=True)
class Sight:
    """`path`: of the thing's page, as `reverse` gives it. `lines`: more to say, each a sentence or two."""

    path: str = ""
    lines: tuple[str, ...] = ()
    pictures: tuple[Picture, ...] = ()


class Looker(Protocol):
    """What a kind of subject shows."""

    def look(self, uuid: UUID, *, pictures: bool) -> Sight:
        """The thing as it is now; an empty sight where it is gone."""

    def needless(self, event: "Event", reader: User | None) -> str:
        """Why nobody (or not `reader`) needs to hear of `event` any more, in words; "" where they do."""


def look_at(event: "Event", *, pictures: bool) -> Sight:
    """What the event is about."""
    looker: Looker | None = _registry.find(event.subject_kind)
    return looker.look(event.subject_uuid, pictures=pictures) if looker else Sight()


def needless(event: "Event", reader: User | None) -> str:
    """Why the event needs no telling any more, in words; "" where it does."""
    looker: Looker | None = _registry.find(event.subject_kind)
    return looker.needless(event, reader) if looker else ""
