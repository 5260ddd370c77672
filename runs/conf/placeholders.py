"""Values that were left as an example has them."""

import re

_PLACEHOLDER = re.compile(r"/path/to/|<[A-Za-z][A-Za-z0-9_ -]*>")


def is_placeholder(text: str) -> bool:
    """Whether the value is still to be filled in: `/path/to/...` or `<Name>`."""
    return _PLACEHOLDER.search(text) is not None
