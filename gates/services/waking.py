"""A word to `conduct` that there is something to do."""

from django.db import transaction

from jobs.wake import wake_conduct


def wake_on_commit() -> None:
    """Wake `conduct` once this transaction is committed; a lost word costs it one tick."""
    transaction.on_commit(wake_conduct)
