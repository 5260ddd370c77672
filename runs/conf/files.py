"""A bash conf file, read without running it: assignments, comments, and one derived form. All else is refused.

NAME=value                     # quotes, $NAME, ${NAME}, ${NAME:-default}; `export` may stand before it
if [ -z "$X" ]; then X=$(awk "BEGIN {printf \\"%.6f\\", $A * $B}"); fi      # over one line or several
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from record.errors import BadInput
from runs.conf.arithmetic import is_format
from runs.conf.errors import ConfFault, ConfRefused, Unreadable
from runs.conf.names import NAME, is_own
from runs.conf.words import Word, from_template, quote, read_word, to_template

MAX_VALUE_CHARS = 2000
_BLANK = re.compile(r"[ \t]*(?:#.*)?$")
_ASSIGNMENT = re.compile(rf"[ \t]*(?:export[ \t]+)?({NAME})=")
_TAIL = re.compile(r"(?:[ \t]+(?:#.*)?)?$")
_NEXT_LINE = r"(?:[ \t]+#[^\n]*|[ \t]*)\n(?:[ \t]*(?:#[^\n]*)?\n)*[ \t]*"
_SEPARATOR = rf"(?:[ \t]*;[ \t]*|{_NEXT_LINE})"
_IN_AWK = rf"\$\{{{NAME}(?::-[0-9.]+)?\}}|\${NAME}(?![A-Za-z0-9_])"
_DERIVED = re.compile(
    rf'[ \t]*if[ \t]+\[[ \t]+-z[ \t]+"\$(?:({NAME})|\{{({NAME})(?::-)?\}})"[ \t]+\]'
    rf"{_SEPARATOR}then(?:[ \t]+|{_NEXT_LINE})"
    rf"({NAME})=(\"?)\$\([ \t]*awk[ \t]+\"BEGIN[ \t]*\{{[ \t]*printf[ \t]*\\\"(%[^\"\\\n]*)(?:\\?\\n)?\\\"[ \t]*,"
    rf"((?:{_IN_AWK}|[A-Za-z0-9_.+\-*/() \t])+?)\}}\"[ \t]*\)\4{_SEPARATOR}fi(?:[ \t]+#[^\n]*|[ \t]*)(?=\n|$)"
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


@dataclass(frozen=True)
class Assignment:
    """`name=word` in line `line` (from 1); the word's text is at `start` to `end` of the file."""

    name: str
    word: Word
    line: int
    start: int
    end: int


@dataclass(frozen=True)
class Derived:
    """The derived form: where `name` is empty it becomes `printf(form, expression)`. It begins at `start`."""

    name: str
    form: str
    expression: str
    line: int
    start: int

    @property
    def parts(self) -> list[str]:
        """The expression, cut at its references: every second part is one, in the form `${NAME}`."""
        return re.split(rf"({_IN_AWK})", self.expression)


Statement = Assignment | Derived


@dataclass(frozen=True)
class ConfFile:
    """A conf file that was read whole."""

    name: str
    text: str
    statements: tuple[Statement, ...]

    @cached_property
    def templates(self) -> dict[str, str]:
        """Name -> what it is set to, as people type it (the last assignment counts); empty where it is derived only."""
        found = {each.name: "" for each in self.statements}
        return found | {each.name: to_template(each.word) for each in self.statements if isinstance(each, Assignment)}

    @cached_property
    def comments(self) -> dict[str, str]:
        """Name -> the comment beside its (last) assignment, where there is one."""
        found = {}
        for each in self.statements:
            if isinstance(each, Assignment):
                tail = self.text[each.end :].split("\n", 1)[0].strip().lstrip("#").strip()
                found[each.name] = tail
        return {name: comment for name, comment in found.items() if comment}

    def with_values(self, values: Mapping[str, str]) -> "ConfFile":
        """The file with templates in place of what was set; names that it lacks are added at its end.

        Of each name one line is changed: that which counts (the last). Comments and order stay. Raises BadInput for a
        value or a name that can't stand in a conf file.
        """
        changes = [change for name, value in values.items() if (change := self._change(name, value))]
        text = self.text
        for start, end, new in sorted(changes, reverse=True):
            text = text[:start] + new + text[end:]
        known = {each.name for each in self.statements}
        added = [f"{name}={_quoted(name, value)}\n" for name, value in values.items() if name not in known]
        if added:
            gap = "" if not text or text.endswith("\n") else "\n"
            text = f"{text}{gap}\n# Set for this run.\n{''.join(added)}"
        return read_conf(text, self.name) if text != self.text else self

    def _change(self, name: str, value: str) -> tuple[int, int, str] | None:
        """(start, end, new text) of the one change; None where the file has this value, or no such name."""
        if is_own(name) or not re.fullmatch(NAME, name):
            raise BadInput(f"{name!r} can't be the name of a value: bash or the environment uses it.")
        new = _quoted(name, value)
        mine = [each for each in self.statements if each.name == name]
        assigned = next((each for each in reversed(mine) if isinstance(each, Assignment)), None)
        if assigned is not None:
            if from_template(check_value(name, value)) == assigned.word:
                return None
            double = self.text[assigned.start : assigned.start + 1] == '"'
            return assigned.start, assigned.end, _quoted(name, value, double=double) if double else new
        return (mine[0].start, mine[0].start, f"{name}={new}\n") if mine and value.strip() else None


def check_value(key: str, value: str) -> str:
    """The value, trimmed; BadInput where it can't stand in a conf file."""
    value = value.strip()
    if any((ord(char) < 32 and char != "\t") or ord(char) == 127 for char in value):
        raise BadInput(f"{key} has a line break or a control character in it; give it on one line.")
    if len(value) > MAX_VALUE_CHARS:
        raise BadInput(f"{key} has {len(value)} characters; at most {MAX_VALUE_CHARS} are allowed.")
    try:
        from_template(value)
    except Unreadable as fault:
        raise BadInput(f"{key} can't be {value!r}: {fault}.") from None
    return value


def read_conf(text: str, name: str = "pipeline.conf") -> ConfFile:
    """The file, read without running it; ConfRefused with the line of everything that only bash could tell."""
    reader = _Reader(text, name)
    reader.read()
    if reader.faults:
        raise ConfRefused(reader.faults)
    return ConfFile(name, text, tuple(reader.statements))


def _quoted(name: str, value: str, *, double: bool = False) -> str:
    word = from_template(check_value(name, value))
    return quote(word, double=double) if word else ""


class _Reader:
    def __init__(self, text: str, name: str) -> None:
        self.text, self.name = text, name
        self.statements: list[Statement] = []
        self.faults: list[ConfFault] = []

    def read(self) -> None:
        at, number = 0, 1
        while at < len(self.text):
            end = self.text.find("\n", at)
            end = len(self.text) if end < 0 else end
            try:
                end = self._statement(at, end, number)
            except Unreadable as fault:
                self.faults.append(ConfFault(self.name, number, str(fault)))
            number += self.text.count("\n", at, end) + 1
            at = end + 1

    def _statement(self, at: int, end: int, number: int) -> int:
        """Read what begins at `at`; where it ends, which is the end of a line."""
        line = self.text[at:end]
        _check_characters(line)
        if _BLANK.match(line):
            return end
        if match := _DERIVED.match(self.text, at):
            _check_characters(match.group())
            self.statements.append(_derived(match, number, at))
            return match.end()
        if match := _ASSIGNMENT.match(line):
            self.statements.append(_assignment(match, line, number, at))
            return end
        raise Unreadable(_not_read(line))


def _check_characters(text: str) -> None:
    if "\r" in text:
        raise Unreadable("a carriage return (a Windows line end), which bash takes as part of the value: run dos2unix")
    if _CONTROL.search(text):
        raise Unreadable("a control character, which is not text")


def _assignment(match: re.Match[str], line: str, number: int, offset: int) -> Assignment:
    name = match.group(1)
    if is_own(name):
        raise Unreadable(f"{name} is bash's own or the environment's: a conf file can't set it")
    word, end = read_word(line, match.end())
    if not _TAIL.match(line, end):
        raise Unreadable(f"after {name}=... only a comment may follow; quote a value that has spaces")
    return Assignment(name, word, number, offset + match.end(), offset + end)


def _derived(match: re.Match[str], number: int, start: int) -> Derived:
    name = match.group(1) or match.group(2)
    if match.group(3) != name:
        raise Unreadable(f"this tests whether {name} is empty, and sets {match.group(3)}")
    if not is_format(match.group(5)):
        raise Unreadable(f"the format {match.group(5)!r} is not read: use %d, or %f, %e, %g with up to 15 digits")
    found = Derived(name, match.group(5), match.group(6).strip(" \t"), number, start)
    for used in (name, *(part.strip("${}").partition(":")[0] for part in found.parts[1::2])):
        if is_own(used):
            raise Unreadable(f"{used} is bash's own or the environment's: what it is differs by job")
    return found


def _not_read(line: str) -> str:
    first = line.split(None, 1)[0]
    if first in ("source", "."):
        return "`source` reads another file: put its values here"
    if first in ("if", "then", "fi", "else", "elif"):
        return 'of conditions only `if [ -z "$X" ]; then X=$(awk "BEGIN {printf ...}"); fi` is read'
    if first.startswith("\ufeff"):
        return "the file begins with a byte order mark, which bash takes as part of the first word: save it without"
    return f"{first[:40]!r} is no assignment: a conf file holds NAME=value (without spaces at the =) and comments"
