"""What is due, and who does it: one line a thing. Each function answers how many things it did.

Each is a few indexed queries, does nothing where nothing is due, and may run twice or at two places at once.
"""

import logging
from collections.abc import Callable

from django.db import Error as DatabaseError
from django.utils.module_loading import import_string

from jobs.patience import Patience

log = logging.getLogger(__name__)

DUE = [
    "jobs.sweep:handle_unhandled",
    "gates.sweep:apply_decided",
    "gates.sweep:close_overdue",
    "gates.sweep:escalate_due",
    "gates.sweep:prepare_due",
    "runs.sweep:start_ready",
    "runs.sweep:refresh_progress",
]


class DueTable:
    """The functions of the table, each on its own: one that fails is logged, tried again later, and stops no other."""

    def __init__(self, places: list[str] = DUE) -> None:
        self._functions: dict[str, Callable[[], int]] = {
            place: import_string(place.replace(":", ".")) for place in places
        }
        self._patience = Patience(longest_s=60)

    def run(self) -> int:
        """Run all; how many things were done."""
        return sum(self._run(place, function) for place, function in self._functions.items())

    def _run(self, place: str, function: Callable[[], int]) -> int:
        if not self._patience.allows(place):
            return 0
        try:
            done = function()
        except DatabaseError:
            raise
        except Exception:
            log.exception("%s failed; it is tried again", place)
            self._patience.failed(place)
            return 0
        self._patience.succeeded(place)
        return done
