"""What the lines of the log are about, so that all lines of one job or run can be found.

Within `about(job=..., run=...)` every line carries these keys, whoever writes it; the formatter shows them. So does the
line that tells of an exception which has left it: sweeps log what failed outside of it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from logging import LogRecord

_KEPT = "log_keys"  # where an exception keeps those of the innermost `about` that it has left
_KEYS: ContextVar[dict[str, str] | None] = ContextVar("log_keys", default=None)


@contextmanager
def about(**keys: object) -> Iterator[None]:
    """Lines that are written inside carry these keys, and those of the `about` around it; empty values are left out."""
    told = {name: str(value) for name, value in keys.items() if value not in (None, "")}
    before = _KEYS.set(current_keys() | told)
    try:
        yield
    except Exception as error:
        error.__dict__.setdefault(_KEPT, current_keys())
        raise
    finally:
        _KEYS.reset(before)


def current_keys() -> dict[str, str]:
    """The keys that a line written now carries."""
    return _KEYS.get() or {}


def keys_of(record: LogRecord) -> dict[str, str]:
    """The keys of one line: the current ones, and those of the exception that it tells of."""
    error = record.exc_info[1] if record.exc_info else None
    kept: dict[str, str] = getattr(error, _KEPT, {})
    return current_keys() | kept
