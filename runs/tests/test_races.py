"""Two that do the same at once: one does it."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from django.db import connection

from jobs.models import Job
from jobs.services import handle_final
from record.errors import ConductorError, InvalidTransition, StaleState
from record.models import Decision
from runs.models import Run
from runs.pipeline.spec import spec_of
from runs.services.control import cancel_run, pause_run
from runs.services.launch import start_phase, write_files
from runs.tests.factories import Bench, phase_of, states

AT_ONCE = 6


def at_once(*acts: Callable[[], Any]) -> list[Any]:
    """What each answered, or the error it met."""
    barrier = Barrier(len(acts))

    def one(act: Callable[[], Any]) -> Any:
        barrier.wait()
        try:
            return act()
        except ConductorError as error:
            return error
        finally:
            connection.close()

    with ThreadPoolExecutor(len(acts)) as pool:
        return list(pool.map(one, acts))


@pytest.mark.django_db(transaction=True)
def test_a_phase_is_started_once(bench: Bench) -> None:
    run = bench.begin()
    phase = phase_of(run, "1")
    write_files(run, spec_of(run.snapshot), [])  # two threads of one process would write to one temporary file
    answers = at_once(*[lambda: start_phase(phase.pk)] * AT_ONCE)
    assert answers.count(True) == 1 and answers.count(False) == AT_ONCE - 1
    assert Job.objects.count() == 1 and phase_of(run, "1").attempt == 1


@pytest.mark.django_db(transaction=True)
def test_the_end_of_a_job_is_handled_once(bench: Bench) -> None:
    run = bench.begin()
    start_phase(phase_of(run, "1").pk)
    job = Job.objects.get()
    bench.execute(job)
    answers = at_once(*[lambda: handle_final(Job.objects.get(pk=job.pk))] * AT_ONCE)
    assert answers.count(True) == 1
    assert states(run)["2"] == "ready"
    assert run.tilt_series.count() == 3


@pytest.mark.django_db(transaction=True)
def test_of_many_who_cancel_one_does(bench: Bench) -> None:
    run = bench.begin()
    answers = at_once(*[lambda: cancel_run(run=run, author=bench.operator, reason="no")] * AT_ONCE)
    assert sum(isinstance(answer, Decision) for answer in answers) == 1
    assert sum(isinstance(answer, InvalidTransition | StaleState) for answer in answers) == AT_ONCE - 1
    assert Decision.objects.count() == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("attempt", range(4))
def test_a_pause_against_a_start(bench: Bench, attempt: int) -> None:
    run = bench.begin()
    phase = phase_of(run, "1")
    started, paused = at_once(lambda: start_phase(phase.pk), lambda: pause_run(run=run, author=bench.operator))
    assert paused is None and Run.objects.get(pk=run.pk).state == "paused"
    jobs = Job.objects.all()
    assert [job.held for job in jobs] == ([True] if started else []), "what was planned before is held"
