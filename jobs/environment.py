"""What a job's processes find in their environment, and a target's own lines that run before them. Pure."""

import os
import re
from collections.abc import Iterable

ALLOWED = ("PATH", "HOME", "LANG", "TZ", "USER", "LOGNAME", "TMPDIR")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")  # what may be the name of one


def allowed_environment(names: Iterable[str]) -> dict[str, str]:
    """What of our own environment a target's jobs may see: the usual, all of LC_, and those `names`."""
    allowed = {*ALLOWED, *names}
    return {name: value for name, value in os.environ.items() if name in allowed or name.startswith("LC_")}


def after_lines(lines: str, command: list[str]) -> list[str]:
    """`command` in a shell that has read a target's environment lines first; as it is where there are none.

    The lines may come from a browser's text area, whose line ends no shell understands.
    """
    if not lines.strip():
        return command
    lines = lines.replace("\r\n", "\n")
    return ["/bin/bash", "-c", f'{lines}\nexec "$@"', "environment", *command]
