"""What upper rooms have to do at a cluster: done in its turn, so that no slow connection holds up what is due here.

A companion has `due()` and `act(target_id)`; it is registered as "module:attribute" when its room is made ready.
"""

from typing import Protocol

from django.utils.module_loading import import_string

_PLACES: list[str] = []


class Companion(Protocol):
    def due(self) -> set[int]:
        """Keys of the clusters' targets at which something waits to be done now. One query."""

    def act(self, target_id: int) -> int:
        """Do it; how many things were done. It may run twice, late or never."""


def register(place: str) -> None:
    """Say where a companion is: "module:attribute". It is imported at its first use."""
    if place not in _PLACES:
        _PLACES.append(place)


def companions() -> list[Companion]:
    """All that are registered."""
    return [import_string(place.replace(":", ".")) for place in _PLACES]
