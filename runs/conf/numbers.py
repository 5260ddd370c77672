"""Numbers as scripts and people write them."""

import re

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def is_number(text: str) -> bool:
    """Whether `text` is a number: `.5`, `1.` and `4.5e-5` are; `1_0`, `1,5` and digits of other scripts are not."""
    return _NUMBER.fullmatch(text) is not None
