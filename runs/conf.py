"""Reads and writes bash conf files (`KEY=VALUE`, sourced by the scripts) without running them.

Values are read as bash would read them as far as quotes and comments go; `$(...)` is never run, and stays as it is.
"""

import re
import shlex
from collections.abc import Iterator, Mapping

from record.errors import BadInput

_ASSIGNMENT = re.compile(r"^[ \t]*(?:export[ \t]+)?([A-Za-z_][A-Za-z0-9_]*)=", re.MULTILINE)
_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::?-([^{}]*))?\}|\$([A-Za-z_][A-Za-z0-9_]*)")
MAX_VALUE_CHARS = 2000


def parse_conf(text: str) -> dict[str, str]:
    """Name -> value as it is written, without its quotes. Of several assignments the last counts, as in bash."""
    return {key: value for key, value, _, _ in _assignments(text)}


def resolve_conf(*layers: Mapping[str, str]) -> dict[str, str]:
    """The layers put over each other, later ones first, with `${NAME}` and `${NAME:-default}` filled in.

    A reference to something that is nowhere set becomes empty, as in bash; one that leads back to itself, too.
    """
    raw: dict[str, str] = {}
    for layer in layers:
        raw.update({key: value for key, value in layer.items() if not _refers_to_itself(key, value, raw)})
    return {key: _fill(value, raw, (key,)) for key, value in raw.items()}


def check_value(key: str, value: str) -> str:
    """The value, trimmed; BadInput where it can't stand in a conf file."""
    value = value.strip()
    if any(ord(char) < 32 or ord(char) == 127 for char in value):
        raise BadInput(f"{key} has a line break or a control character in it; give it on one line.")
    if len(value) > MAX_VALUE_CHARS:
        raise BadInput(f"{key} has {len(value)} characters; at most {MAX_VALUE_CHARS} are allowed.")
    return value


def render_conf(text: str, values: Mapping[str, str]) -> str:
    """The conf file with `values` in place of what was assigned there; names that it lacks are added at its end.

    Everything else (comments, order, other values) stays as it is. Values are quoted for the shell, so that none is
    ever run. Raises BadInput for a value with a line break.
    """
    quoted = {key: shlex.quote(check_value(key, value)) for key, value in values.items()}
    parts: list[str] = []
    seen: set[str] = set()
    at = 0
    for key, _, start, end in _assignments(text):
        if key in quoted:
            parts += [text[at:start], quoted[key]]
            seen.add(key)
            at = end
    parts.append(text[at:])
    result = "".join(parts)
    added = [f"{key}={value}" for key, value in quoted.items() if key not in seen]
    if not added:
        return result
    gap = "" if result.endswith("\n") or not result else "\n"
    return result + gap + "\n# Set for this run.\n" + "\n".join(added) + "\n"


def _assignments(text: str) -> Iterator[tuple[str, str, int, int]]:
    """(name, value, start and end of the value's text) in the file's order."""
    at = 0
    while match := _ASSIGNMENT.search(text, at):
        value, end = _read_value(text, match.end())
        yield match.group(1), value, match.end(), end
        at = max(end, match.end())


def _read_value(text: str, start: int) -> tuple[str, int]:
    """One bash word from `start`: (its value, where it ends)."""
    parts: list[str] = []
    at = start
    while at < len(text) and text[at] not in " \t\n;#" or _inside_word(text, at, start):
        piece, at = _read_piece(text, at)
        parts.append(piece)
    return "".join(parts), at


def _inside_word(text: str, at: int, start: int) -> bool:
    # A hash begins a comment only where a word would begin.
    return start < at < len(text) and text[at] == "#"


def _read_piece(text: str, at: int) -> tuple[str, int]:
    char = text[at]
    if char == "'":
        end = text.find("'", at + 1)
        end = len(text) if end < 0 else end
        return text[at + 1 : end], end + 1
    if char == '"':
        return _read_double_quoted(text, at + 1)
    if char == "$" and text.startswith(("${", "$("), at):
        end = _closing(text, at + 1)
        return text[at:end], end
    if char == "(":
        end = _closing(text, at)
        return text[at:end], end
    if char == "\\" and at + 1 < len(text):
        return text[at + 1], at + 2
    return char, at + 1


def _read_double_quoted(text: str, at: int) -> tuple[str, int]:
    parts: list[str] = []
    while at < len(text) and text[at] != '"':
        if text[at] == "\\" and at + 1 < len(text) and text[at + 1] in '"\\`$':
            at += 1
        parts.append(text[at])
        at += 1
    return "".join(parts), at + 1


def _closing(text: str, at: int) -> int:
    """Where what opens at `at` (a brace or a bracket) is closed, exclusive; the line's end where it is not."""
    opening, closing = text[at], "}" if text[at] == "{" else ")"
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] == opening) - (text[i] == closing)
        if depth == 0:
            return i + 1
        if text[i] == "\n" and opening == "{":
            return i
    return len(text)


def _refers_to_itself(key: str, value: str, raw: Mapping[str, str]) -> bool:
    """`KEY=${KEY:-default}` over a KEY that is set already changes nothing."""
    return bool(raw.get(key)) and any(key in (m.group(1), m.group(3)) for m in _REFERENCE.finditer(value))


def _fill(value: str, raw: Mapping[str, str], path: tuple[str, ...]) -> str:
    def replace(match: re.Match[str]) -> str:
        name = match.group(1) or match.group(3)
        default = match.group(2) or ""
        if name in path or len(path) > 20 or not raw.get(name):
            return _fill(default, raw, path) if len(path) <= 20 else ""
        return _fill(raw[name], raw, (*path, name))

    return _REFERENCE.sub(replace, value)
