"""The arithmetic of the one derived form, as awk does it: doubles, + - * / int() and brackets, printf's formats.

Refused is what awks differ in (octal, hexadecimal, the sign of zero, very large integers) or what is no sum at all.
"""

import math
import re

from runs.conf.errors import Unreadable

_TOKEN = re.compile(r"[ \t]*(?:((?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?![\w.])|(int\()|([-+*/()]))", re.ASCII)
_FORMAT = re.compile(r"%(?:[di]|(?:\.(\d|1[0-5]))?[feg])", re.ASCII)
_TWINS = re.compile(r"--|\+\+|\*\*|//")
_OLD_OCTAL = re.compile(r"(?<![\w.])0\d", re.ASCII)
_LARGEST_INTEGER = 2**31
_MAX_DEPTH = 50
MAX_CHARS = 1000


def computed(form: str, expression: str) -> str:
    """`printf(form, expression)` as text; Unreadable where awk would fail, or awks differ."""
    return _formatted(form, evaluate(expression))


def evaluate(expression: str) -> float:
    """The value of a sum of numbers."""
    if len(expression) > MAX_CHARS:
        raise Unreadable(f"a formula of more than {MAX_CHARS} characters")
    if twin := _TWINS.search(expression):
        raise Unreadable(f"{expression!r} has {twin.group()!r} in it, which awk reads as something else")
    if _OLD_OCTAL.search(expression):
        raise Unreadable(f"{expression!r} has a number with a leading zero, which some awks read as octal")
    value = _Sum(expression).value()
    if not math.isfinite(value):
        raise Unreadable(f"{expression!r} is not a finite number")
    return value


def is_format(form: str) -> bool:
    """Whether `form` is one of %d %i %f %e %g, the last three with up to 15 digits."""
    return _FORMAT.fullmatch(form) is not None


def _formatted(form: str, value: float) -> str:
    if not is_format(form):
        raise Unreadable(f"the format {form!r} is not read: use %d, or %f, %e, %g with up to 15 digits")
    if form[-1] in "di":
        whole = math.trunc(value)
        if abs(whole) >= _LARGEST_INTEGER:
            raise Unreadable(f"{value:g} is too large for {form}: awks differ there")
        if not whole and math.copysign(1, value) < 0:
            raise Unreadable("a negative zero, which awks print differently")
        return str(whole)
    if value == 0 and math.copysign(1, value) < 0:
        raise Unreadable("a negative zero, which awks print differently")
    return form % value


class _Sum:
    """A sum, read from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text.rstrip(" \t")
        self.at = 0
        self.depth = 0
        self.number, self.sign = self._next()

    def value(self) -> float:
        value = self._terms()
        if self.number is not None or self.sign:
            raise self._wrong()
        return value

    def _next(self) -> tuple[float | None, str]:
        if self.at == len(self.text):
            return None, ""
        match = _TOKEN.match(self.text, self.at)
        if match is None:
            raise self._wrong()
        self.at = match.end()
        return (float(match.group(1)), "") if match.group(1) else (None, match.group(2) or match.group(3))

    def _take(self) -> None:
        self.number, self.sign = self._next()

    def _terms(self) -> float:
        value = self._factors()
        while self.sign in ("+", "-"):
            sign = self.sign
            self._take()
            other = self._factors()
            value = value + other if sign == "+" else value - other
        return value

    def _factors(self) -> float:
        value = self._signed()
        while self.sign in ("*", "/"):
            sign = self.sign
            self._take()
            other = self._signed()
            if sign == "/" and other == 0:
                raise Unreadable(f"{self.text!r} divides by zero")
            value = value * other if sign == "*" else value / other
        return value

    def _signed(self) -> float:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise Unreadable(f"{self.text!r} is nested too deeply")
        value = self._operand()
        self.depth -= 1
        return value

    def _operand(self) -> float:
        if self.number is not None:
            value = self.number
            self._take()
            return value
        sign = self.sign
        if sign in ("+", "-"):
            self._take()
            value = self._signed()
            return -value if sign == "-" else value
        if sign in ("(", "int("):
            self._take()
            value = self._terms()
            if self.sign != ")":
                raise self._wrong()
            self._take()
            return float(math.trunc(value)) if sign == "int(" and math.isfinite(value) else value
        raise self._wrong()

    def _wrong(self) -> Unreadable:
        return Unreadable(f"{self.text!r} is no sum of numbers (+ - * / int() and brackets)")
