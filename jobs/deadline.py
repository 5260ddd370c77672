"""How long calls to targets may take where somebody waits for the answer: in a request, and nowhere else."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_ends_s: ContextVar[float | None] = ContextVar("ends_s", default=None)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """All calls that are made in here have that long together; then they fail in words (AdapterError, transient)."""
    before = _ends_s.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        _ends_s.reset(before)


@contextmanager
def longer(seconds: float) -> Iterator[None]:
    """For what takes its time at a target that has just answered: that long from now on. No limit stays none."""
    if _ends_s.get() is None:
        yield
        return
    with within(seconds):
        yield


def left_s() -> float | None:
    """Seconds that calls may still take, at least 0; None where nobody waits."""
    ends_s = _ends_s.get()
    return None if ends_s is None else max(0.0, ends_s - time.monotonic())


def shorten(seconds: float) -> float:
    """The shorter of that and what is left."""
    left = left_s()
    return seconds if left is None else min(seconds, left)
