"""When to try a failing thing again: later each time, never at full speed. Kept in memory, per process."""

import time
from collections.abc import Hashable


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
