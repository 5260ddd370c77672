"""How many requests a minute one asker may make.

A request is one byte appended to a file that is named after the asker and the minute: the file's length is the count.
Appending is atomic, so that all web workers of a host count together, without a lock and without the database, which
would have to be written for each read. The counts outlive a restart. Several hosts count each for itself.
"""

import hashlib
import logging
import os
import time
from pathlib import Path
from typing import Any

from django.conf import settings
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from conductor_site.models import ApiToken

log = logging.getLogger(__name__)

MINUTE_S = 60


class RequestLimit(BaseThrottle):
    """Reads and commands are counted apart, each token by itself; a signed-in browser counts as its person."""

    def allow_request(self, request: Request, view: Any) -> bool:
        reads = request.method in SAFE_METHODS
        limit = settings.API_READS_A_MINUTE if reads else settings.API_COMMANDS_A_MINUTE
        return count_request(f"{asker(request)} {'reads' if reads else 'commands'}") <= limit

    def wait(self) -> float:
        """Seconds until the next minute begins."""
        return MINUTE_S - time.time() % MINUTE_S


def asker(request: Request) -> str:
    """Whose requests are counted together."""
    if isinstance(request.auth, ApiToken):
        return f"token {request.auth.pk}"
    return f"user {request.user.pk}"


def count_request(key: str) -> int:
    """Count one more for `key` in this minute; how many there are now, 0 where the disk does not take the count."""
    minute = int(time.time() // MINUTE_S)
    folder = Path(settings.API_LIMITS)
    path = folder / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.{minute}"
    try:
        count = _append(path)
        if count == 1:
            _forget(folder, minute)
    except OSError as error:  # a full disk is no reason to refuse a read; whoever looks after it is told by the log
        log.warning("requests to the API are not limited: %s", error)
        return 0
    return count


def _append(path: Path) -> int:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    try:
        handle = os.open(path, flags, 0o600)
    except FileNotFoundError:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(path, flags, 0o600)
    try:
        os.write(handle, b".")
        return os.fstat(handle).st_size
    finally:
        os.close(handle)


def _forget(folder: Path, minute: int) -> None:
    """Remove the counts of minutes that are over."""
    for path in folder.iterdir():
        if path.suffix[1:].isdigit() and int(path.suffix[1:]) < minute - 1:
            path.unlink(missing_ok=True)
