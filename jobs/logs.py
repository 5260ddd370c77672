"""Pieces of log files by byte range, made safe to show. Never a whole file in memory.

What comes out is valid text: bytes that are not UTF-8 are shown as U+FFFD, escape sequences and control characters and
marks that turn the direction of writing are taken out or shown as symbols, and a progress bar that redraws
itself with carriage returns is folded to its last state.
"""

from dataclasses import dataclass

from jobs.printed import ESCAPES, visible
from jobs.shells import Shell

BLOCK_BYTES = 64 * 1024
SLICE_LIMIT_BYTES = 1024 * 1024
LINE_LIMIT = 4000


@dataclass(frozen=True)
class LogSlice:
    """Text of the bytes `start` up to `end` of a file that is `size` bytes long."""

    text: str
    start: int
    end: int
    size: int


def tail(shell: Shell, path: str, *, lines: int = 40) -> LogSlice:
    """The last `lines` lines, found from the end in blocks of 64 KiB and at most 1 MiB; whole lines where possible."""
    size = shell.size(path)
    start, data = size, b""
    while start > 0 and data.count(b"\n") <= lines and len(data) < SLICE_LIMIT_BYTES:
        step = min(BLOCK_BYTES, start)
        start -= step
        data = shell.read(path, offset=start, limit=step) + data
    kept = data.split(b"\n")
    wanted = lines + (1 if kept and kept[-1] == b"" else 0)
    dropped = sum(len(line) + 1 for line in kept[:-wanted]) if len(kept) > wanted else 0
    return LogSlice(clean(data[dropped:]), start + dropped, start + len(data), max(size, start + len(data)))


def slice(shell: Shell, path: str, *, start: int, length: int) -> LogSlice:  # noqa: A001 - read as logs.slice
    """The bytes from `start`, at most `length` (and at most 1 MiB). A cut character is left to the next slice.

    A start beyond the end gives an empty slice at the end.
    """
    size = shell.size(path)
    start = max(0, min(start, size))
    data = shell.read(path, offset=start, limit=max(0, min(length, SLICE_LIMIT_BYTES)))
    if start + len(data) < size:
        data = _whole_characters(data)
    return LogSlice(clean(data), start, start + len(data), max(size, start + len(data)))


def clean(data: bytes) -> str:
    """Text that can be shown: see the head of this module. Line ends become a line feed, tabs stay."""
    text = data.decode("utf-8", "replace").replace("\r\n", "\n")
    text = ESCAPES.sub("", text)
    return visible("\n".join(_fold(line) for line in text.split("\n")))


def _fold(line: str) -> str:
    """What stays on the screen of a line that was redrawn with carriage returns; very long lines are cut."""
    if "\r" in line:
        states = [state for state in line.split("\r") if state.strip()]
        line = states[-1] if states else ""
    return line if len(line) <= LINE_LIMIT else f"{line[:LINE_LIMIT]} … ({len(line) - LINE_LIMIT} more characters)"


def _whole_characters(data: bytes) -> bytes:
    """`data` without a UTF-8 character that is cut at its end; at least one byte stays."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 == 0xC0:
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data[:-back] if length > back and len(data) > back else data
        if byte < 0x80:
            return data
    return data
