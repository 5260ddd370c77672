"""Doing what is due row by row: a row that fails is tried again later each time, and stops no other.

Waits are kept in memory, per process.
"""

import logging
import time
from collections.abc import Callable, Hashable, Iterable
from functools import partial

from django.db import InterfaceError, OperationalError

log = logging.getLogger(__name__)

# The database itself does not answer: no row's fault, and for the loop to wait out. What else the database says (a
# constraint that does not hold, a value that does not fit) is about one row, and must not stop the others.
DATABASE_AWAY = (OperationalError, InterfaceError)


class Patience:
    """Waits of 1, 2, 4 ... `longest_s` seconds a key."""

    def __init__(self, *, longest_s: float = 60) -> None:
        self.longest_s = longest_s
        self._waits: dict[Hashable, tuple[float, float]] = {}

    def allows(self, key: Hashable) -> bool:
        """Whether `key` may be tried now."""
        return time.monotonic() >= self._waits.get(key, (0.0, 0.0))[1]

    def failed(self, key: Hashable) -> None:
        wait_s = min(self.longest_s, self._waits.get(key, (0.5, 0.0))[0] * 2)
        self._waits[key] = (wait_s, time.monotonic() + wait_s)

    def succeeded(self, key: Hashable) -> None:
        self._waits.pop(key, None)

    def attempt(self, what: str, act: Callable[[], int | None]) -> int:
        """Do `act` unless `what` has to wait; what it answers, or 0. A failure is logged and makes `what` wait.

        Raises only what says that the database is away.
        """
        if not self.allows(what):
            return 0
        try:
            done = act()
        except DATABASE_AWAY:
            raise
        except Exception:
            log.exception("%s failed; it is tried again", what)
            self.failed(what)
            return 0
        self.succeeded(what)
        return int(done or 0)

    def each(self, keys: Iterable[int], act: Callable[[int], int | None], *, most: int = 100) -> int:
        """`act(key)` for the first `most` of those keys that need not wait; the sum of what they answer (None: 0).

        Those that wait don't count: however many rows fail, the next ones have their turn.
        """
        ready = [key for key in keys if self.allows(f"{act.__name__} {key}")]
        return sum(self.attempt(f"{act.__name__} {key}", partial(act, key)) for key in ready[:most])
