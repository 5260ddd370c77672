"""What the lines of the log are about, so that all lines of one job or run can be found.

Within `about(job=..., run=...)` every line carries these keys, whoever writes it; the formatter shows them.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_KEYS: ContextVar[dict[str, str] | None] = ContextVar("log_keys", default=None)


@contextmanager
def about(**keys: object) -> Iterator[None]:
    """Lines that are written inside carry these keys, and those of the `about` around it; empty values are left out."""
    told = {name: str(value) for name, value in keys.items() if value not in (None, "")}
    before = _KEYS.set(current_keys() | told)
    try:
        yield
    finally:
        _KEYS.reset(before)


def current_keys() -> dict[str, str]:
    """The keys that a line written now carries."""
    return _KEYS.get() or {}
