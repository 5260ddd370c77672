"""One bash word as an assignment has it: literals and references, in any quotes. Nothing is run.

A *template* is such a word as people type it in a form: `$NAME`, `${NAME}` and `${NAME:-default}` are references, all
else is literal; a backslash before such a dollar sign makes it literal.
"""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from runs.conf.errors import Unreadable
from runs.conf.names import NAME, is_own

_NAMED = re.compile(rf"\$(?:({NAME})|\{{({NAME})(:-|\}}))")
_LITERAL_DOLLAR = re.compile(r"\$(?=[A-Za-z_{])")
_REFUSED = {
    "`": "a backtick runs a command",
    ";": "a `;` begins another command",
    "|": "a `|` is a pipe",
    "&": "an `&` begins another command",
    "<": "a `<` is a redirection",
    ">": "a `>` is a redirection",
    "(": "a bracket begins an array or a subshell",
    ")": "a bracket stands alone",
    "~": "a `~` becomes somebody's home folder: write the path out, or quote it",
}
_DEFAULT_ENDS = set("{}\n#")
_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")
MAX_DEPTH = 20
MAX_FILLED_CHARS = 32_768


@dataclass(frozen=True)
class Reference:
    """`${name}`, or with `default` `${name:-default}`: taken where `name` is unset or empty."""

    name: str
    default: "Word | None" = None


Part = str | Reference
Word = tuple[Part, ...]


def read_word(line: str, at: int) -> tuple[Word, int]:
    """The word that begins at `at`, and where it ends; Unreadable where only bash could tell its value."""
    parts: list[Part] = []
    while at < len(line) and line[at] not in " \t":
        piece, at = _read_piece(line, at)
        parts += piece
    return _joined(parts), at


def references(word: Word) -> list[str]:
    """The names that the word asks for, in order."""
    names: list[str] = []
    for part in word:
        if isinstance(part, Reference):
            names += [part.name, *references(part.default or ())]
    return names


def fill(word: Word, values: Mapping[str, str]) -> str:
    """The word's value, given those of all names that are set; Unreadable where names of names make it endless."""
    pieces: list[str] = []
    length = 0
    for part in word:
        pieces.append(part if isinstance(part, str) else _value_of(part, values))
        length += len(pieces[-1])
        if length > MAX_FILLED_CHARS:
            raise Unreadable(f"filled in, the value has more than {MAX_FILLED_CHARS} characters")
    return "".join(pieces)


def to_template(word: Word) -> str:
    """The word as people read and type it."""
    return "".join(_LITERAL_DOLLAR.sub(r"\\$", part) if isinstance(part, str) else _written(part) for part in word)


def from_template(text: str) -> Word:
    """The word that was typed; Unreadable where a `${` is begun that is no reference."""
    parts: list[Part] = []
    at = 0
    while at < len(text):
        if text[at] == "\\" and _LITERAL_DOLLAR.match(text, at + 1):
            parts.append("$")
            at += 2
        elif _LITERAL_DOLLAR.match(text, at):
            reference, at = _read_reference(text, at, quoted=True, depth=0)
            parts.append(reference)
        else:
            parts.append(text[at])
            at += 1
    return _joined(parts)


def quote(word: Word, *, double: bool = False) -> str:
    """The word as bash source, on one line, so that reading it gives `word` again. `double`: in double quotes."""
    if all(isinstance(part, str) for part in word):
        text = "".join(part for part in word if isinstance(part, str))
        if not double or re.search(r'["\\`$]', text):
            return text if _PLAIN.fullmatch(text) else shlex.quote(text)
    return '"' + "".join(_escaped(part) if isinstance(part, str) else _written(part) for part in word) + '"'


def _escaped(text: str) -> str:
    return re.sub(r'(["\\`$])', r"\\\1", text)


def _written(reference: Reference) -> str:
    default = "" if reference.default is None else f":-{''.join(_bare(part) for part in reference.default)}"
    return f"${{{reference.name}{default}}}"


def _bare(part: Part) -> str:
    return part if isinstance(part, str) else _written(part)


def _value_of(reference: Reference, values: Mapping[str, str]) -> str:
    return values.get(reference.name, "") or fill(reference.default or (), values)


def _read_piece(line: str, at: int) -> tuple[list[Part], int]:
    char = line[at]
    if char == "'":
        return _read_single_quoted(line, at)
    if char == '"':
        return _read_double_quoted(line, at)
    if char == "$":
        reference, end = _read_reference(line, at, quoted=False, depth=0)
        return [reference], end
    if char == "\\":
        if at + 1 == len(line):
            raise Unreadable("a line that goes on in the next one is not read: write it on one line")
        return [line[at + 1]], at + 2
    if char in _REFUSED:
        raise Unreadable(f"{_REFUSED[char]}; quote it if it is part of the value")
    return [char], at + 1


def _read_single_quoted(line: str, at: int) -> tuple[list[Part], int]:
    end = line.find("'", at + 1)
    if end < 0:
        raise Unreadable("a ' is not closed on its line")
    return [line[at + 1 : end]], end + 1


def _read_double_quoted(line: str, at: int) -> tuple[list[Part], int]:
    parts: list[Part] = []
    at += 1
    while at < len(line) and line[at] != '"':
        if line[at] == "`":
            raise Unreadable("a backtick runs a command, also in double quotes; use single quotes if it is meant")
        if line[at] == "$":
            reference, at = _read_reference(line, at, quoted=True, depth=0)
            parts.append(reference)
            continue
        at += line[at] == "\\" and at + 1 < len(line) and line[at + 1] in '"\\`$'
        parts.append(line[at])
        at += 1
    if at >= len(line):
        raise Unreadable('a " is not closed on its line')
    return parts, at + 1


def _read_reference(line: str, at: int, *, quoted: bool, depth: int) -> tuple[Reference, int]:
    match = _NAMED.match(line, at)
    if match is None or depth > MAX_DEPTH:
        raise Unreadable(_no_reference(line, at))
    name = match.group(1) or match.group(2)
    if is_own(name):
        raise Unreadable(f"{name} is bash's own or the environment's: what it is differs by job; write its value out")
    if match.group(3) != ":-":
        return Reference(name), match.end()
    default, end = _read_default(line, match.end(), quoted=quoted, depth=depth)
    return Reference(name, default), end


def _read_default(line: str, at: int, *, quoted: bool, depth: int) -> tuple[Word, int]:
    """What stands after `:-`, up to its brace. Quotes in it are not read: they mean different things around it."""
    parts: list[Part] = []
    while at < len(line) and line[at] != "}":
        if line[at] == "$":
            reference, at = _read_reference(line, at, quoted=quoted, depth=depth + 1)
            parts.append(reference)
            continue
        if line[at] in _REFUSED or line[at] in _DEFAULT_ENDS or line[at] in "\"'\\":
            raise Unreadable(f"a default with {line[at]!r} in it is not read")
        parts.append(line[at])
        at += 1
    if at >= len(line):
        raise Unreadable("a ${ is not closed on its line")
    return _joined(parts), at + 1


def _no_reference(line: str, at: int) -> str:
    if line.startswith("$(", at):
        return 'a $(...) runs a command: only `if [ -z "$X" ]; then X=$(awk ...); fi` is read, see the documentation'
    if line.startswith("${", at):
        return "only ${NAME} and ${NAME:-default} are read of what begins with ${"
    return "a $ that is no reference to a name; put it into single quotes if it is meant"


def _joined(parts: list[Part]) -> Word:
    """Neighbouring literals as one."""
    joined: list[Part] = []
    for part in parts:
        last = joined[-1] if joined else None
        if isinstance(part, str) and isinstance(last, str):
            joined[-1] = last + part
        elif part != "":
            joined.append(part)
    return tuple(joined)
