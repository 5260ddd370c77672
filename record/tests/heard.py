"""What the log says, with the keys that its lines carry at the moment they are written."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from record.logkeys import keys_of


class _Ear(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[tuple[str, dict[str, str]]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append((record.getMessage(), keys_of(record)))


@contextmanager
def heard(logger: str) -> Iterator[list[tuple[str, dict[str, str]]]]:
    """(message, its keys) of each line that is written inside to this logger."""
    ear = _Ear()
    logging.getLogger(logger).addHandler(ear)
    try:
        yield ear.lines
    finally:
        logging.getLogger(logger).removeHandler(ear)
