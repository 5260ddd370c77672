"""How long a trial may wait: never beyond the end of the whole, and never after an interrupt."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE_S = 90.0  # with a busy machine; costs nothing where all goes well


class TooLate(RuntimeError):
    """What was waited for did not come about."""


class Interrupted(RuntimeError):
    """Somebody wants all of it to end."""


class Limits:
    """The end of the whole, in seconds from now, and the wish to end before."""

    def __init__(self, within_s: float) -> None:
        self.until_s = time.monotonic() + within_s
        self._stop = threading.Event()

    def interrupt(self) -> None:
        self._stop.set()

    def left_s(self) -> float:
        return max(0.0, self.until_s - time.monotonic())

    def rest(self, seconds: float) -> None:
        """Wait so long. Interrupted where all is to end."""
        if self._stop.wait(min(seconds, self.left_s())):
            raise Interrupted("interrupted")
        if not self.left_s():
            raise TooLate("the time for all trials is over")

    def until(
        self, holds: Callable[[], T | None], *, what: str, within_s: float = PATIENCE_S, every_s: float = 0.05
    ) -> T:
        """Wait until something holds, and answer it; TooLate, with `what`, where it doesn't."""
        end_s = time.monotonic() + within_s
        while not (answer := holds()):
            if time.monotonic() > end_s:
                raise TooLate(f"not within {within_s:g} s: {what}")
            self.rest(every_s)
        return answer
