"""The heads of the chains, also kept outside the database, so that a database put back to an older state shows."""

import json
import logging
import os

from django.conf import settings

log = logging.getLogger(__name__)


def append(lab_id: int, number: int, digest: str) -> None:
    """Add a head to the file. A failure is logged, never raised: the decision has been committed."""
    line = json.dumps({"lab": lab_id, "number": number, "digest": digest}) + "\n"
    try:
        settings.RECORD_HEADS.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(settings.RECORD_HEADS, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(descriptor, line.encode())  # one write of a short line: appends of several processes don't mix
        finally:
            os.close(descriptor)
    except OSError as error:
        log.error(
            "could not write the head of lab %s (decision %s) to %s: %s", lab_id, number, settings.RECORD_HEADS, error
        )


def read() -> dict[int, dict[int, str]]:
    """lab key -> number -> digest, as written; an empty dict where there is no file. Broken lines are left out."""
    seen: dict[int, dict[int, str]] = {}
    if not settings.RECORD_HEADS.exists():
        return seen
    with settings.RECORD_HEADS.open() as lines:
        for line in lines:
            try:
                row = json.loads(line)
                seen.setdefault(row["lab"], {})[row["number"]] = row["digest"]
            except (ValueError, KeyError, TypeError):
                log.warning("a line of %s can't be read; it was left out", settings.RECORD_HEADS)
    return seen
