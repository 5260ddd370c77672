"""Exact numbers: a box size must not grow by two because 0.1 is no binary fraction."""

from decimal import Decimal
from fractions import Fraction

from runs.conf.numbers import is_number

MAX_DIGITS = 30


def exact(text: str) -> Fraction | None:
    """The number that stands there; None where it is none, or one of more than 30 digits."""
    if not is_number(text):
        return None
    number = Decimal(text)
    return Fraction(number) if abs(number.adjusted()) <= MAX_DIGITS and len(text) < 100 else None


def even_ceiling(value: Fraction) -> int:
    """The smallest even whole number that is not below `value`."""
    return 2 * -(-value // 2)


def next_multiple(value: int, of: int) -> int:
    """The smallest multiple of `of` that is not below `value`."""
    return of * -(-value // of)


def shown(value: Fraction | int) -> str:
    """With at most six decimals, and none that say nothing."""
    text = f"{float(value):.6f}"
    return text.rstrip("0").rstrip(".")
