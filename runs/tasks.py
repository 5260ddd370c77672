"""What the task cluster runs of runs: nudges, which may come twice, late or never."""

from runs.services import preflight


def look_first(run_id: int) -> bool:
    """Look at the target of a run that waits for it."""
    return preflight.look_first(run_id)
