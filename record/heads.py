"""The heads of the chains, also kept outside the database, so that a database put back to an older state shows."""

import json
import logging
import os
from collections.abc import Iterator
from typing import NamedTuple

from django.conf import settings

log = logging.getLogger(__name__)


class Head(NamedTuple):
    """A chain's end as it once was: `digest` is that of decision `number` of the lab with key `lab_id`."""

    lab_id: int
    number: int
    digest: str


def append(lab_id: int, number: int, digest: str) -> None:
    """Add a head to the file. A failure is logged, never raised: the decision has been committed."""
    line = json.dumps({"lab": lab_id, "number": number, "digest": digest}).encode() + b"\n"
    try:
        settings.RECORD_HEADS.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(settings.RECORD_HEADS, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            # One write of a short line: appends of several processes don't mix.
            if os.write(descriptor, line) != len(line):
                os.write(descriptor, b"\n")  # a disk that fills up: the next head begins a line of its own
                raise OSError("only a part of the line could be written")
        finally:
            os.close(descriptor)
    except OSError as error:
        log.error(
            "could not write the head of lab %s (decision %s) to %s: %s", lab_id, number, settings.RECORD_HEADS, error
        )


def stream() -> Iterator[Head]:
    """Every head in the order in which it was written, one line of the file at a time; nothing where there is no file.

    One number may come twice, with different digests, where a database was put back and went on from there. Lines that
    can't be read are logged and left out.
    """
    if not settings.RECORD_HEADS.exists():
        return
    with settings.RECORD_HEADS.open(errors="replace") as lines:
        for position, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
                head = Head(int(row["lab"]), int(row["number"]), str(row["digest"]))
            except (ValueError, KeyError, TypeError):
                log.warning("line %s of %s can't be read; it was left out", position, settings.RECORD_HEADS)
                continue
            yield head
