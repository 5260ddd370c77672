"""Every control in every state: it does what it says, or says why it can't."""

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from record.errors import InvalidTransition, NotAllowed
from record.models import Decision, Door, Event
from record.services import Author
from runs.models import Phase, Run
from runs.services.control import (
    archive_run,
    cancel_run,
    pause_run,
    resume_run,
    retry_phase,
    run_again_from,
    skip_phase,
)
from runs.states import PhaseState, RunState
from runs.tests.factories import Bench, phase_of

RUN_CONTROLS: dict[str, tuple[Callable[..., Any], set[str]]] = {
    "pause": (pause_run, {"running"}),
    "resume": (resume_run, {"paused"}),
    "cancel": (cancel_run, {"running", "paused"}),
    "archive": (archive_run, {"done", "cancelled"}),
}
PHASE_CONTROLS: dict[str, tuple[Callable[..., Any], set[str]]] = {
    "retry": (retry_phase, {"failed"}),
    "skip": (skip_phase, {"pending", "ready", "failed", "checkpoint"}),
    "again": (run_again_from, set(PhaseState.values)),
}


@pytest.mark.parametrize(("state", "control"), list(product(RunState.values, RUN_CONTROLS)))
def test_runs(bench: Bench, state: str, control: str) -> None:
    run = bench.begin()
    Run.objects.filter(pk=run.pk).update(state=state)
    act, allowed = RUN_CONTROLS[control]
    events = Event.objects.count()

    if state in allowed:
        act(run=run, author=bench.operator, reason="because")
        assert Event.objects.count() > events
    else:
        with pytest.raises(InvalidTransition, match="first"):
            act(run=run, author=bench.operator, reason="because")
        assert Event.objects.count() == events
        assert not Decision.objects.exists()


@pytest.mark.parametrize(("run_state", "control"), list(product(RunState.values, PHASE_CONTROLS)))
def test_phases(bench: Bench, run_state: str, control: str) -> None:
    run = bench.begin()
    for state in PhaseState.values:
        with transaction.atomic():
            _control_phase(bench, run, run_state, state, control)
            transaction.set_rollback(True)


def _control_phase(bench: Bench, run: Run, run_state: str, state: str, control: str) -> None:
    phase = phase_of(run, "3a", "alpha")
    Phase.objects.filter(pk=phase.pk).update(state=state, attempt=1)
    Run.objects.filter(pk=run.pk).update(state=run_state)
    act, allowed = PHASE_CONTROLS[control]
    open_runs = {"running", "paused"} | ({"done"} if control == "again" else set())

    if state in allowed and run_state in open_runs:
        act(phase=phase, author=bench.operator, reason="because")
    else:
        with pytest.raises(InvalidTransition):
            act(phase=phase, author=bench.operator, reason="because")
        phase.refresh_from_db()
        assert phase.state == state
        assert not Decision.objects.exists()


@pytest.mark.parametrize("control", [*RUN_CONTROLS, *PHASE_CONTROLS])
def test_an_archived_run_takes_no_command(bench: Bench, control: str) -> None:
    run = bench.begin()
    Run.objects.filter(pk=run.pk).update(archived_at=timezone.now())
    with pytest.raises(InvalidTransition, match="archived"):
        _call(control, run, bench.operator)


@pytest.mark.parametrize("control", [*RUN_CONTROLS, *PHASE_CONTROLS])
def test_only_operators_control(bench: Bench, control: str) -> None:
    run = bench.begin()
    for person in (bench.people.viewer, bench.people.reviewer, bench.people.outsider):
        with pytest.raises(NotAllowed):
            _call(control, run, Author.person(person, Door.WEB))


def _call(control: str, run: Run, author: Author) -> None:
    if control in RUN_CONTROLS:
        RUN_CONTROLS[control][0](run=run, author=author, reason="because")
    else:
        PHASE_CONTROLS[control][0](phase=phase_of(run, "1"), author=author, reason="because")
