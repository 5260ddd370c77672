"""A phase that `conduct` itself made ready is started as it knows it, and by what holds when it begins."""

from collections.abc import Iterator

import pytest
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from jobs.claiming import take_here
from jobs.drain import begin_drain
from jobs.hosts import this_host
from jobs.models import Job, Target
from jobs.services import handle_final
from runs.models import Run
from runs.services.made_ready import take_ready
from runs.sweep import start_made_ready, start_ready
from runs.tests.factories import Bench, states

pytestmark = pytest.mark.django_db(transaction=True)


class Conduct:
    """The process that runs this host's jobs, but for running them."""

    host, holder = this_host(), "boot:1:1"

    def __init__(self) -> None:
        self.taken: list[Job] = []

    def take(self, job: Job) -> None:
        self.taken.append(job)


@pytest.fixture
def conduct() -> Iterator[Conduct]:
    yield Conduct()
    take_here(None)
    take_ready()


def end_first_phase(bench: Bench, conduct: Conduct | None) -> Run:
    """A run whose first phase has just ended, which that process (or one that runs no jobs) has seen to."""
    run = bench.begin("one")
    start_ready()
    job = Job.objects.get()
    bench.execute(job)
    take_here(conduct)
    handle_final(job)
    assert states(run)["2"] == "ready"
    return run


def test_it_is_started_without_being_looked_for(bench: Bench, conduct: Conduct) -> None:
    run = end_first_phase(bench, conduct)
    assert start_made_ready() == 1
    assert states(run)["2"] == "running"
    assert [job.pk for job in conduct.taken] == [Job.objects.get(ended_at=None).pk]
    assert start_made_ready() == 0 and start_ready() == 0


def test_nothing_is_asked_where_none_was_made_ready(
    conduct: Conduct, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(0):
        assert start_made_ready() == 0


def test_another_process_remembers_none(bench: Bench) -> None:
    end_first_phase(bench, None)
    assert take_ready() == {}


def test_what_is_of_another_host_is_not_remembered(bench: Bench, conduct: Conduct) -> None:
    conduct.host = "elsewhere"
    end_first_phase(bench, conduct)
    assert take_ready() == {}


def test_values_that_changed_meanwhile_count(bench: Bench, conduct: Conduct) -> None:
    run = end_first_phase(bench, conduct)
    Run.objects.filter(pk=run.pk).update(conf={"DIM": "64"})
    assert start_made_ready() == 0
    assert states(run)["2"] == "ready"

    assert start_ready() == 1
    assert "DIM=64\n" in (bench.folder / "work/one/.conductor/pipeline/pipeline.conf").read_text()


def test_a_pause_meanwhile_holds_it_back(bench: Bench, conduct: Conduct) -> None:
    run = end_first_phase(bench, conduct)
    Run.objects.filter(pk=run.pk).update(state="paused")
    assert start_made_ready() == 0
    assert states(run)["2"] == "ready"


def test_an_archived_run_starts_nothing(bench: Bench, conduct: Conduct) -> None:
    run = end_first_phase(bench, conduct)
    Run.objects.filter(pk=run.pk).update(archived_at=timezone.now())
    assert start_made_ready() == 0
    assert states(run)["2"] == "ready"


def test_a_drain_keeps_it_ready_and_it_starts_afterwards(bench: Bench, conduct: Conduct) -> None:
    run = end_first_phase(bench, conduct)
    drain = begin_drain(reason="maintenance")
    assert start_made_ready() == 0
    assert states(run)["2"] == "ready"
    drain.delete()
    assert start_ready() == 1


def test_another_that_was_first_is_not_overtaken(bench: Bench, conduct: Conduct) -> None:
    end_first_phase(bench, conduct)
    assert start_ready() == 1
    assert start_made_ready() == 0
    assert Job.objects.filter(ended_at=None).count() == 1


def test_a_paused_target_gets_the_plan_only(bench: Bench, conduct: Conduct) -> None:
    end_first_phase(bench, conduct)
    Target.objects.update(paused=True)
    assert start_made_ready() == 1
    assert conduct.taken == []
    assert Job.objects.get(ended_at=None).state == "planned"
