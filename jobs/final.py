"""What follows a job's end: registered by key, so that the row can name what an upper room does.

A handler has `gather(job)`, which may read disks and takes its time outside any transaction, and
`apply(job, gathered)`, which writes inside the transaction that also marks the job as handled. What `apply` writes is
locked by `lock(job)` before the job's own row is: runs and gates come before jobs wherever several rows are locked.
"""

from typing import Any, Protocol

from django.db import connection
from django.utils.module_loading import import_string

from jobs.models import Job

_PLACES: dict[str, str] = {}


class FinalHandler(Protocol):
    def gather(self, job: Job) -> Any:
        """Read what the job left behind. No writes to the database. May run again."""

    def lock(self, job: Job) -> None:
        """Lock the rows that `apply` will write; called first in the transaction, where the database locks rows."""

    def apply(self, job: Job, gathered: Any) -> None:
        """Write what follows; called inside the transaction that sets `final_handled`."""


def register(key: str, place: str) -> None:
    """Say where the handler of `key` is: "module:attribute". It is imported at its first use."""
    _PLACES[key] = place


def handler(key: str) -> FinalHandler | None:
    """The handler registered as `key`; None where nobody registered it."""
    place = _PLACES.get(key)
    return import_string(place.replace(":", ".")) if place else None


def lock_for(follower: FinalHandler | None, job: Job) -> None:
    """Have the follower lock what it will write, before the job's row; SQLite's transactions lock everything anyway."""
    if follower and connection.features.has_select_for_update:
        follower.lock(job)
