"""Values of pipeline.conf and the species conf, which the scripts export into the environment."""

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from tomo.errors import TomoError


def text(name: str, default: str | None = None) -> str:
    """Return the value called `name`; an empty one counts as not set.

    Raises
    ------
    TomoError
        If it is not set and there is no default.
    """
    value = os.environ.get(name, "").strip() or default
    if value is None:
        raise TomoError(f"{name} is not set: give it in pipeline.conf or in the species conf.")
    return value


def number(name: str, default: str | None = None) -> float:
    """Return the value called `name` as a finite number."""
    value = text(name, default)
    try:
        result = float(value)
    except ValueError:
        raise TomoError(f"{name} is {value!r}, which is not a number.") from None
    if not np.isfinite(result):
        raise TomoError(f"{name} is {value!r}, which is not a finite number.")
    return result


def whole(name: str, default: str | None = None, at_least: int = 0) -> int:
    """Return the value called `name` as a whole number of at least `at_least`."""
    value = number(name, default)
    if value != int(value) or value < at_least:
        raise TomoError(f"{name} is {value:g}, where a whole number of at least {at_least} is needed.")
    return int(value)


def positive(name: str, default: str | None = None) -> float:
    """Return the value called `name` as a number above zero."""
    value = number(name, default)
    if value <= 0:
        raise TomoError(f"{name} is {value:g}, where a number above zero is needed.")
    return value


def words(name: str) -> list[str]:
    """Return the words of the value called `name`; none where it is not set."""
    return os.environ.get(name, "").split()


def tilt_angles() -> np.ndarray:
    """Return the simulated tilt angles in degrees, ascending."""
    low, high, step = number("TILT_MIN_DEG"), number("TILT_MAX_DEG"), positive("TILT_STEP_DEG")
    angles = np.arange(low, high + step / 2, step)
    if len(angles) < 3:
        raise TomoError(f"TILT_MIN_DEG {low:g} to TILT_MAX_DEG {high:g} by {step:g} gives fewer than three tilts.")
    return angles


def blobs() -> np.ndarray:
    """Return a species' density, BLOBS, as rows of x, y, z, sigma (Angstrom) and weight, about its centre of mass."""
    value = text("BLOBS")
    try:
        rows = np.array([[float(n) for n in row.split(",")] for row in value.split(";") if row.strip()])
    except ValueError:
        rows = np.empty(0)
    if rows.ndim != 2 or rows.shape[1] != 5 or (rows[:, 3] <= 0).any():
        raise TomoError(f"BLOBS is {value!r}: give x,y,z,sigma,weight in Angstrom, blobs parted by semicolons.")
    rows[:, :3] -= np.average(rows[:, :3], axis=0, weights=rows[:, 4])
    return rows


@contextmanager
def file_values(path: Path) -> Iterator[None]:
    """Let the values of a conf file (KEY=VALUE as bash reads it, without expansions) stand in the environment."""
    before = dict(os.environ)
    words = shlex.split(path.read_text(encoding="utf-8"), comments=True)
    os.environ.update({word.partition("=")[0]: word.partition("=")[2] for word in words if "=" in word})
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
