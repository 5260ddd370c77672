"""A worker killed at any line loses nothing, and what is done twice is done once."""

from typing import Any

import pytest

from jobs.models import Job
from jobs.services import handle_final
from record.models import Event
from runs.models import Run
from runs.services import ending, engine, launch
from runs.services.board import series_names
from runs.services.create import create_run
from runs.sweep import start_ready
from runs.tests.factories import Bench, phase_of, states, trace


class Killed(BaseException):
    """What a kill looks like from inside: nothing after it is done."""


def kill_at(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> None:
    def die(*args: Any, **kwargs: Any) -> None:
        raise Killed

    monkeypatch.setattr(module, name, die)


STARTING = [
    (launch, "check_before_start"),
    (launch, "write_files"),
    (launch, "set_aside"),
    (launch, "count_done"),
    (launch, "lock_run"),
    (launch, "move"),
    (launch, "plan_step"),
    (launch, "wake_on_commit"),
]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("module", "name"), STARTING, ids=[name for _, name in STARTING])
def test_killed_while_starting(bench: Bench, module: Any, name: str) -> None:
    run = bench.begin()
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
        kill_at(patch, module, name)
        start_ready()
    assert states(run)["1"] == "ready" and not Job.objects.exists()
    bench.drive()
    assert states(run)["2"] == "checkpoint" and trace(run)[:2] == ["import", "recon TS_001"]


ENDING = [
    (ending, "look_at"),
    (ending, "lock_run"),
    (ending, "add_series"),
    (ending, "advance"),
    (engine, "move"),
    (engine, "ask_gate"),
]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("module", "name"), ENDING, ids=[name for _, name in ENDING])
def test_killed_while_the_end_of_a_job_is_handled(bench: Bench, module: Any, name: str) -> None:
    run = bench.begin()
    start_ready()
    job = Job.objects.get()
    bench.execute(job)
    if name == "ask_gate":
        handle_final(job)
        start_ready()
        job = Job.objects.planned().get()
        bench.execute(job)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
        kill_at(patch, module, name)
        handle_final(job)
    job.refresh_from_db()
    assert not job.final_handled
    bench.drive()
    assert states(run)["2"] == "checkpoint" and trace(run).count("import") == 1
    assert Job.objects.count() == 2


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("name", ["snapshot_pipeline", "lay_out", "insert_phases", "advance"])
def test_killed_while_a_run_is_begun(bench: Bench, name: str) -> None:
    import runs.services.create as module

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
        kill_at(patch, module, name)
        bench.begin()
    assert not Run.objects.exists() and not Event.objects.exists()
    assert create_run is module.create_run
    run = bench.begin()
    bench.drive()
    assert states(run)["2"] == "checkpoint"


def test_everything_twice_changes_nothing(bench: Bench) -> None:
    run = bench.begin()
    phase = phase_of(run, "1")
    assert launch.start_phase(phase.pk) is True
    assert launch.start_phase(phase.pk) is False
    bench.run_jobs()
    job = Job.objects.get()
    events = Event.objects.count()
    assert handle_final(job) is False
    ending.STEP_ENDED.apply(job, ending.STEP_ENDED.gather(job))
    assert engine.advance_run(run.pk) == 0
    assert Event.objects.count() == events
    assert series_names(run).excluded == []
