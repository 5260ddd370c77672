"""What a target's commands print, as text that can be kept and shown, and its numbers as times. Pure.

A command may be anything: a wrapper of the site, or one that a job put in its place. What it prints ends up in columns,
on pages and on terminals, so what no database keeps and no screen should obey is taken out or shown at this door.
"""

import math
import re
from datetime import UTC, datetime

from record.values import unturned

# ECMA-48: CSI sequences, OSC and other strings up to their terminator, and two-character escapes.
ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_].*?(?:\x07|\x1b\\|$)|\x1b[ -/]*[0-~]?", re.MULTILINE)
C1 = re.compile(r"[\x80-\x9f]")
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
EARLIEST, LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)


def printed(data: bytes) -> str:
    """Text of what a command printed: its lines end with a line feed and with nothing else that ends one.

    Escape sequences and marks that turn or hide text are gone, other control characters are shown as symbols, bytes
    that are no UTF-8 as U+FFFD.
    """
    text = data.decode("utf-8", "replace").replace("\r\n", "\n")
    return visible(ESCAPES.sub("", text))


def visible(text: str) -> str:
    """`text` without control characters and unseen marks: line feeds and tabs stay."""
    text = CONTROL.sub(lambda found: chr(0x2421 if found[0] == "\x7f" else 0x2400 + ord(found[0])), text)
    return unturned(C1.sub("\ufffd", text))


def whole(text: str) -> int | None:
    """The number that up to 18 digits (0-9) write; None for all else: isdigit() takes more than int() does."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None


def moment(seconds: float) -> datetime:
    """Seconds since the epoch as a time; the nearest that can be written where it is beyond all calendars."""
    if math.isnan(seconds) or seconds < EARLIEST.timestamp():
        return EARLIEST
    return LATEST if seconds > LATEST.timestamp() else datetime.fromtimestamp(seconds, UTC)
