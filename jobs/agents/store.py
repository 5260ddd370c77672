"""What agents wrote, as it is kept: redacted text under its SHA-256, written whole or not at all."""

import hashlib
import os
from pathlib import Path

from django.conf import settings

from jobs.agents.errors import OutputLost
from jobs.shells import in_words, write_whole
from record.shared import seen


def keep(raw: bytes) -> str:
    """Keep what was written; its hex SHA-256. AdapterError where the disk fails."""
    digest = hashlib.sha256(raw).hexdigest()
    path = path_of(digest)
    with in_words(str(path)):
        if not path.exists() or path.stat().st_size != len(raw):
            os.makedirs(path.parent, mode=0o750, exist_ok=True)
            write_whole(str(path), raw, sync=True, mode=0o640)
    return digest


def read(sha256: str) -> bytes:
    """What was kept; OutputLost, in words, where it is gone or not what it was."""
    try:
        raw = path_of(sha256).read_bytes()
    except FileNotFoundError as error:
        raise OutputLost("What the agent wrote is missing from the store; restore it from a backup.") from error
    if hashlib.sha256(raw).hexdigest() != sha256:
        raise OutputLost("What the agent wrote was altered in the store since, so it is not shown.")
    return raw


def path_of(sha256: str) -> Path:
    """Where it lies; AdapterError (transient) where hosts share the store and this one can't see it."""
    return seen(Path(settings.AGENT_OUTPUT_ROOT)) / sha256[:2] / sha256
