"""Numbers on the command line, checked where they are given."""

from __future__ import annotations

import argparse
import math


def finite(text: str) -> float:
    """A number that is neither NaN nor infinite."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not a finite number")
    return value


def positive(text: str) -> float:
    """A finite number above 0."""
    value = finite(text)
    if value <= 0:
        raise argparse.ArgumentTypeError(f"{text} is not above 0")
    return value


def count(text: str) -> int:
    """A whole number from 1 on."""
    value = finite(text)
    if value < 1 or value != int(value):
        raise argparse.ArgumentTypeError(f"{text} is not a whole number from 1 on")
    return int(value)


def add_apix(parser: argparse.ArgumentParser) -> None:
    """The pixel size that fills in for a header."""
    parser.add_argument("--apix", type=positive, metavar="A", help="pixel size in Å where the header doesn't know it")
