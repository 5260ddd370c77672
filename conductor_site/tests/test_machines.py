"""Every state table of every room: its events can be logged, its states exist, and what is final stays."""

from importlib import import_module

import pytest

from record.kinds import KINDS
from record.transitions import Machine

ROOMS = ["jobs", "gates", "runs"]
TABLES = [
    (module, name)
    for module in (import_module(f"{room}.states") for room in ROOMS)
    for name, value in vars(module).items()
    if isinstance(value, Machine)
]
IDS = [name for _, name in TABLES]


@pytest.mark.parametrize(("module", "name"), TABLES, ids=IDS)
def test_each_event_is_a_kind_that_is_logged(module: object, name: str) -> None:
    machine = getattr(module, name)
    assert [event for event in machine.events() if f"{machine.kind}.{event}" not in KINDS] == []


@pytest.mark.parametrize(("module", "name"), TABLES, ids=IDS)
def test_each_state_is_one_of_the_field(module: object, name: str) -> None:
    machine = getattr(module, name)
    states = set(getattr(module, f"{machine.kind.title()}State"))
    assert {state for each in machine.rules for state in each.sources | {each.target}} <= states


@pytest.mark.parametrize(("module", "name"), TABLES, ids=IDS)
def test_every_state_with_every_event_has_one_answer(module: object, name: str) -> None:
    machine = getattr(module, name)
    states = set(getattr(module, f"{machine.kind.title()}State"))
    for state in states:
        for event in machine.events():
            if machine.allows(state, event):
                assert machine.target(state, event) in states
            else:
                with pytest.raises(KeyError):
                    machine.target(state, event)


def test_a_job_that_ended_never_changes() -> None:
    jobs = import_module("jobs.states")
    assert [(s, e) for s in jobs.FINAL for e in jobs.JOB.events() if jobs.JOB.allows(s, e)] == []
