"""A job is claimed in the transaction that plans it only where it would be the next to start anyway."""

import selectors
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.db import transaction
from django.utils import timezone
from pytest_django import DjangoCaptureOnCommitCallbacks

from jobs.claiming import claim_at_once, take_here
from jobs.drain import begin_drain
from jobs.executors import Seen
from jobs.hands import Hands, order_of
from jobs.hosts import this_host
from jobs.models import Cluster, Job, Target
from record.models import Event

pytestmark = pytest.mark.django_db


@pytest.fixture
def hands(target: Target) -> Iterator[Hands]:
    hands = Hands(host=this_host(), selector=selectors.DefaultSelector())
    hands.know_targets()
    take_here(hands)
    yield hands
    take_here(None)
    hands.close()


@pytest.fixture
def plan_and_claim(
    plan: Callable[..., Job], django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> Callable[[], Job]:
    def _plan() -> Job:
        with django_capture_on_commit_callbacks(execute=True), transaction.atomic():
            job = plan(script="#!/bin/sh\necho ran >> ran\n")
            claim_at_once(job)
        return job

    return _plan


def state(job: Job) -> tuple[str, int, str]:
    return Job.objects.values_list("state", "generation", "holder").get(pk=job.pk)


def test_it_is_claimed_with_its_plan_and_started_after_it(
    hands: Hands, plan_and_claim: Callable[[], Job], tmp_path: Path
) -> None:
    job = plan_and_claim()
    assert state(job) == ("submitting", 1, hands.holder)
    assert not (tmp_path / "jobs" / job.token).exists()

    assert hands.start_due() == 1
    assert hands.start_due() == 0

    job = Job.objects.get(pk=job.pk)
    assert job.state == "running"
    kinds = Event.objects.filter(subject_uuid=job.uuid).order_by("id").values_list("kind", flat=True)
    assert list(kinds) == ["job.plan", "job.claim", "job.start"]
    assert hands.executor.end(order_of(job), job.native_id) == []


def test_without_a_taker_it_waits_for_its_turn(plan_and_claim: Callable[[], Job]) -> None:
    assert state(plan_and_claim()) == ("planned", 0, "")


@pytest.mark.parametrize("hindrance", ["paused", "archived", "elsewhere", "at a cluster", "no slot", "draining"])
def test_it_waits_where_it_may_not_start_now(
    hands: Hands, target: Target, plan_and_claim: Callable[[], Job], hindrance: str
) -> None:
    if hindrance == "no slot":
        target.slots = 1
        target.save()
        plan_and_claim()
    if hindrance == "draining":
        begin_drain(reason="maintenance")
    changes = {"paused": {"paused": True}, "elsewhere": {"host": "another"}, "at a cluster": {"kind": "slurm"}}
    for name, value in changes.get(hindrance, {}).items():
        setattr(target, name, value)
    if hindrance == "at a cluster":
        Cluster.objects.create(target=target)
    if hindrance == "archived":
        target.archived_at = timezone.now()
    target.save()

    assert state(plan_and_claim()) == ("planned", 0, "")


def test_whoever_was_planned_before_goes_first(
    hands: Hands, plan: Callable[..., Job], plan_and_claim: Callable[[], Job]
) -> None:
    before = plan()
    job = plan_and_claim()
    assert [state(each)[0] for each in (before, job)] == ["planned", "planned"]

    Job.objects.filter(pk=before.pk).update(held=True)
    assert state(plan_and_claim())[0] == "planned", "the second one was before it"


def test_what_is_rolled_back_is_not_taken(hands: Hands, plan: Callable[..., Job]) -> None:
    class Undone(Exception):
        """The caller's transaction fails."""

    with pytest.raises(Undone), transaction.atomic():
        claim_at_once(plan())
        raise Undone
    assert hands.start_due() == 0 and not Job.objects.exists()


def test_a_claim_whose_taker_dies_is_taken_over(
    hands: Hands, plan_and_claim: Callable[[], Job], target: Target, tmp_path: Path
) -> None:
    job = plan_and_claim()
    Job.objects.filter(pk=job.pk).update(holder=f"{hands.holder}9")  # another process, which is gone
    take_here(None)
    successor = Hands(host=this_host(), selector=selectors.DefaultSelector())
    successor.know_targets()

    successor.follow()

    job = Job.objects.get(pk=job.pk)
    assert (job.state, job.generation) == ("running", 2)
    while (seen := successor.executor.look(order_of(job)).seen) != Seen.ENDED:
        assert seen in (Seen.NOTHING, Seen.ALIVE)
    assert (tmp_path / "ran").read_text() == "ran\n"

    hands.start_due()  # the first one was not dead, only slow: what it hands over now changes nothing

    assert (tmp_path / "ran").read_text() == "ran\n"
    assert state(job)[:2] == ("running", 2)
    successor.close()
