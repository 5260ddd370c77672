"""Phases that this process has just made ready, as they were when that was committed.

Where it is also the process that starts them, it need not read them anew to prepare a start: what they rest on is
looked at again in the transaction that begins them. What is forgotten here is found by its state.
"""

from collections.abc import Iterable
from functools import partial

from django.db import transaction

from jobs.claiming import is_run_here
from runs.models import Phase, Run
from runs.states import PhaseState

_made_ready: dict[int, Phase] = {}


def note_ready(run: Run, phases: Iterable[Phase]) -> None:
    """Remember those of a run's phases that are ready once the caller's transaction is committed, if we start them."""
    ready = {phase.pk: phase for phase in phases if phase.state == PhaseState.READY}
    if ready and is_run_here(run.target):
        transaction.on_commit(partial(_made_ready.update, ready))


def take_ready() -> dict[int, Phase]:
    """Those that were remembered, by key; they are forgotten."""
    taken = dict(_made_ready)
    _made_ready.clear()
    return taken
