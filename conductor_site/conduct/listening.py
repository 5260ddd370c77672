"""Hears through PostgreSQL (LISTEN) that another host has something for `conduct` to do."""

import logging
import selectors
from contextlib import suppress
from typing import Any

from django.db import Error as DatabaseError
from django.db import connection

from jobs.patience import Patience
from jobs.wake import CHANNEL, own_mark

log = logging.getLogger(__name__)


class Ear:
    """A connection of its own that listens; without it (on SQLite, or while it is lost) ticks find what is due."""

    def __init__(self, selector: selectors.BaseSelector) -> None:
        self.selector = selector
        self._listener: Any = None
        self._descriptor = -1
        self._patience = Patience(longest_s=30)

    def keep_open(self) -> None:
        """Open it where it isn't; to be called once a tick, when the database has just answered."""
        if connection.vendor != "postgresql" or self._listener is not None or not self._patience.allows("open"):
            return
        self._listener = connection.copy()
        try:
            with self._listener.cursor() as cursor:
                cursor.execute(f"LISTEN {CHANNEL}")
        except DatabaseError as error:
            self._lose(error)
            return
        self._patience.succeeded("open")
        self._descriptor = self._listener.connection.fileno()
        self.selector.register(self._descriptor, selectors.EVENT_READ, self.drain)

    def drain(self) -> bool:
        """Take what has come; whether any of it is from another installation than ours."""
        try:
            with self._listener.wrap_database_errors:
                marks = [each.payload for each in self._listener.connection.notifies(timeout=0)]
        except DatabaseError as error:
            self._lose(error)
            return False
        return any(mark != own_mark() for mark in marks)

    def close(self) -> None:
        """Listen no more."""
        if self._descriptor >= 0:
            self.selector.unregister(self._descriptor)
            self._descriptor = -1
        if self._listener is not None:
            with suppress(DatabaseError):
                self._listener.close()
            self._listener = None

    def _lose(self, error: Exception) -> None:
        log.warning("not listening for word from other hosts (%s); ticks find what is due", str(error).strip())
        self.close()
        self._patience.failed("open")
