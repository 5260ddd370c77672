"""Which Python a target's scripts are offered as $PYTHON."""

import sys

from jobs.models import Target


def interpreter_for(target: Target) -> str:
    """On this machine the one that Conductor runs in, which has numpy. The target's environment lines may differ."""
    return sys.executable
