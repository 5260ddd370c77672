"""How a name becomes part of a variable's name."""

import re


def shouted(name: str) -> str:
    """In capitals, with one underscore for whatever is neither letter nor digit: A_B of a-b, a_b and A--B alike."""
    return re.sub(r"[^A-Z0-9]+", "_", name.upper()).strip("_")
