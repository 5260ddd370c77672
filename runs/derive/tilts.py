"""What follows from the tilt angles of a series, in degrees."""

from collections.abc import Sequence
from fractions import Fraction

from runs.conf.numbers import is_number
from runs.derive.numbers import exact

WITHOUT_TILTS = (40, 50)  # degrees


def read_tilts(text: str) -> list[Fraction]:
    """The angles of a .tlt or .rawtlt file, one a line; ValueError with the line of what is no angle."""
    angles = []
    for number, line in enumerate(text.splitlines(), 1):
        if not (word := line.strip()):
            continue
        if not is_number(word) or (angle := exact(word)) is None or abs(angle) > 180:
            raise ValueError(f"line {number}: {word[:40]!r} is no tilt angle in degrees")
        angles.append(angle)
    return angles


def count_tilts(text: str) -> int:
    """How many tilts a .tomostar file has: rows of its one table; ValueError with the line where one is torn."""
    columns = rows = 0
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith(("data_", "loop_", "#")):
            continue
        if words[0].startswith("_"):
            columns += 1
            continue
        if len(words) < columns:
            raise ValueError(f"line {number}: {len(words)} values, and its header names {columns}: the file is torn")
        rows += 1
    return rows


def missing_wedge(tilts: Sequence[Fraction]) -> tuple[int, int]:
    """(Angle1, Angle2): 90 less the largest and the smallest tilt's size, to the nearest degree, halves to even.

    The true extremes in this order, never swapped: with tilts from -40 to 60 they are 30 and 50. Without tilts 40, 50.
    """
    if not tilts:
        return WITHOUT_TILTS
    return round(90 - abs(max(tilts))), round(90 - abs(min(tilts)))


def tilt_step(tilts: Sequence[Fraction]) -> Fraction | None:
    """The smallest difference between two tilts that is not zero; None where there are not two."""
    ordered = sorted(set(tilts))
    steps = [after - before for before, after in zip(ordered, ordered[1:], strict=False)]
    return min(steps, default=None)
