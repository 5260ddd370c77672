"""Tells `conduct` that something can be started."""

from django.db import transaction

from jobs.wake import wake_conduct


def wake_on_commit() -> None:
    """Wake `conduct` once the transaction is committed; a lost wake-up costs one tick."""
    transaction.on_commit(wake_conduct)
