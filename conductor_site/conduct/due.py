"""What is due, and who does it: one line a thing. Each function answers how many things it did.

Each is a few indexed queries, does nothing where nothing is due, and may run twice or at two places at once. They stand
in the order in which one makes work for another, so that one passage sees to all of it.
"""

from collections.abc import Callable, Collection

from django.utils.module_loading import import_string

from jobs.patience import Patience

DUE = [
    "jobs.sweep:handle_unhandled",
    "gates.sweep:close_overdue",
    "gates.sweep:escalate_due",
    "gates.sweep:apply_decided",
    "gates.sweep:prepare_due",
    "runs.sweep:settle_cancelled",
    "runs.services.preflight:nudge_looks",
    "runs.sweep:start_made_ready",
    "runs.sweep:start_ready",
    "jobs.clusters:nudge_clusters",
    "gates.noticing:remind_waiting",
    "record.notices.sending:nudge_sender",
    "runs.sweep:refresh_progress",
    "runs.sweep:export_states",
]
# What somebody who wakes `conduct` may wait for, and what the end of a job here makes due. All else is due by the
# clock, or left over from a crash: ticks find it.
AT_ONCE = frozenset(
    {
        "jobs.sweep:handle_unhandled",
        "gates.sweep:apply_decided",
        "runs.sweep:start_made_ready",
        "runs.sweep:start_ready",
        "jobs.clusters:nudge_clusters",
    }
)
AFTER_ENDS = frozenset({"runs.sweep:start_made_ready"})
# What only the host can do to which a target belongs: every `conduct` does it for its own. The rest is done by the one
# that holds the lease.
OF_THIS_HOST = frozenset(
    {
        "jobs.sweep:handle_unhandled",
        "runs.sweep:start_made_ready",
        "runs.sweep:start_ready",
        "jobs.clusters:nudge_clusters",
        "runs.services.preflight:nudge_looks",
        "runs.sweep:refresh_progress",
        "runs.sweep:export_states",
    }
)


class DueTable:
    """The functions of the table, each on its own: one that fails is logged, tried again later, and stops no other."""

    def __init__(self, places: list[str] = DUE) -> None:
        self._functions: dict[str, Callable[[], int]] = {
            place: import_string(place.replace(":", ".")) for place in places
        }
        self._patience = Patience(longest_s=60)

    def run(self, *, for_all: bool = True) -> int:
        """Run all; how many things were done. Unless `for_all`, only what other hosts can't do for this one."""
        return self._run(self._functions, for_all)

    def run_at_once(self, *, for_all: bool = True) -> int:
        """Run only what somebody who wakes `conduct` may wait for; how many things were done."""
        return self._run(AT_ONCE & self._functions.keys(), for_all)

    def run_after_ends(self, *, for_all: bool = True) -> int:
        """Run only what jobs of this host that ended, and nothing else, can have made due; how much was done."""
        return self._run(AFTER_ENDS & self._functions.keys(), for_all)

    def _run(self, places: Collection[str], for_all: bool) -> int:
        places = places if for_all else OF_THIS_HOST.intersection(places)
        return sum(
            self._patience.attempt(place, function) for place, function in self._functions.items() if place in places
        )
