"""While an installation is drained no job is claimed; afterwards each is, once."""

from collections.abc import Callable

import pytest

from jobs.check import check_target
from jobs.clusters import nudge_clusters
from jobs.custody import claim_due
from jobs.drain import begin_drain, being_submitted, draining, end_drain, still_away
from jobs.hosts import this_host
from jobs.models import Drain, Job, Target
from jobs.states import JobState

pytestmark = pytest.mark.django_db


def test_nothing_is_claimed_until_it_is_over(plan: Callable[..., Job], target: Target) -> None:
    plan()
    begin_drain(reason="upgrade")
    assert claim_due(targets=[target], holder="h") == []
    assert (being_submitted(), still_away()) == (0, 0)

    assert end_drain() is True
    assert len(claim_due(targets=[target], holder="h")) == 1
    assert (being_submitted(), still_away()) == (1, 1)


def test_what_is_under_way_is_counted_and_left_alone(plan: Callable[..., Job], target: Target) -> None:
    plan()
    plan()
    target.slots = 1
    target.save()
    (job,) = claim_due(targets=[target], holder="h")
    begin_drain(reason="upgrade")
    job.refresh_from_db()
    assert job.state == JobState.SUBMITTING
    assert (being_submitted(), still_away()) == (1, 1)


def test_beginning_twice_is_one_drain_with_the_later_reason(target: Target) -> None:
    first = begin_drain(reason="upgrade")
    begin_drain(reason="and a new disk")
    (drain,) = Drain.objects.all()
    assert (drain.since, drain.reason) == (first.since, "and a new disk")
    assert end_drain() is True
    assert (end_drain(), draining()) == (False, None)


def test_the_check_of_a_target_says_so(target: Target) -> None:
    begin_drain(reason="upgrade")
    assert any("Nothing new is started anywhere (upgrade)" in finding.message for finding in check_target(target))


def test_a_cluster_is_not_asked_to_take_what_may_not_be_claimed(plan: Callable[..., Job], target: Target) -> None:
    Target.objects.filter(pk=target.pk).update(kind="slurm", host=this_host())
    plan()
    begin_drain(reason="upgrade")
    assert nudge_clusters() == 0
    end_drain()
    assert nudge_clusters() == 1
