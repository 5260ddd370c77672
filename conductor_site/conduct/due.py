"""What is due, and who does it: one line a thing. Each function answers how many things it did.

Each is a few indexed queries, does nothing where nothing is due, and may run twice or at two places at once.
"""

from collections.abc import Callable

from django.utils.module_loading import import_string

from jobs.patience import Patience

DUE = [
    "jobs.sweep:handle_unhandled",
    "jobs.clusters:nudge_clusters",
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
        return sum(self._patience.attempt(place, function) for place, function in self._functions.items())
