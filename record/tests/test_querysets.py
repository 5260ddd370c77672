"""Lists of decisions and events, as pages ask for them."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
import time_machine
from django.contrib.auth.models import AnonymousUser
from django.db import transaction

from record.models import Decision, Event, Lab
from record.services import Author, Ruling, Subject, record_decision, record_event
from record.tests.factories import People, decide, make_subject
from record.timeline import timeline


@pytest.fixture
def elsewhere(people: People) -> Decision:
    return decide(Lab.objects.get(slug="other"), people.outsider, reason="elsewhere")


def test_people_see_the_decisions_and_events_of_their_labs(lab: Lab, people: People, elsewhere: Decision) -> None:
    mine = decide(lab, people.reviewer)
    event = record_event(lab_id=lab.pk, kind="run.create", subject=make_subject())
    for person in (people.viewer, people.operator, people.reviewer, people.administrator):
        assert list(Decision.objects.seen_by(person)) == [mine]
        assert list(Event.objects.seen_by(person)) == [event]
    assert list(Decision.objects.seen_by(people.outsider)) == [elsewhere]
    assert not Event.objects.seen_by(people.outsider).exists()
    assert not Decision.objects.seen_by(AnonymousUser()).exists()


def test_filters_can_be_chained(lab: Lab, people: People) -> None:
    approved = decide(lab, people.reviewer, reason="Layers are SHARP")
    rejected = decide(lab, people.administrator, verdict="reject", reason="blurred", subject=make_subject("phase pick"))
    with transaction.atomic():
        policy = record_decision(
            lab_id=lab.pk, subject=make_subject(), author=Author.policy("time-out"), ruling=Ruling("approve")
        )
    seen = Decision.objects.seen_by(people.viewer)
    assert list(seen) == [policy, rejected, approved]  # newest first
    assert list(seen.with_verdict("approve")) == [policy, approved]
    assert list(seen.by("administrator")) == [rejected]
    assert list(seen.by("Time-Out")) == [policy]
    assert list(seen.mentioning("sharp")) == [approved]
    assert list(seen.mentioning("phase pick")) == [rejected]
    assert list(seen.mentioning("100%")) == []
    assert list(seen.with_verdict("approve").by("reviewer").mentioning("layers")) == [approved]


def test_a_struck_reason_is_not_found_any_more(lab: Lab, people: People) -> None:
    from record.services import strike_statement

    decision = decide(lab, people.reviewer, reason="password hunter2")
    strike_statement(decision=decision, author=Author.person(people.administrator, "cli"), reason="a password")
    assert not Decision.objects.mentioning("hunter2").exists()


def test_about_a_run_means_its_parts_too(lab: Lab, people: People, elsewhere: Decision) -> None:
    run = Subject("run", root := uuid4(), "run one", root)
    phase = Subject("phase", uuid4(), "phase align", root)
    on_run, on_phase = decide(lab, people.reviewer, subject=run), decide(lab, people.reviewer, subject=phase)
    assert set(Decision.objects.about(root)) == {on_run, on_phase}
    assert list(Decision.objects.about(phase.uuid)) == [on_phase]
    assert list(Decision.objects.for_subject(phase)) == [on_phase]


def test_a_list_is_one_query(lab: Lab, people: People, django_assert_num_queries: Any) -> None:
    for _ in range(3):
        decide(lab, people.reviewer)
    with django_assert_num_queries(1):
        rows = list(Decision.objects.seen_by(people.viewer).in_full())
        assert {(row.lab.name, row.actor.username, str(row.statement)) for row in rows} == {
            ("Tomography", "reviewer", "")
        }


def test_a_timeline_is_decisions_and_events_newest_first(lab: Lab, people: People) -> None:
    phase = make_subject("phase align")
    start = datetime(2026, 11, 30, 9, tzinfo=UTC)
    expected: list[Any] = []
    with time_machine.travel(start, tick=False) as clock:
        for _ in range(3):
            expected.insert(0, record_event(lab_id=lab.pk, kind="phase.start", subject=phase))
            clock.shift(timedelta(minutes=1))
            expected.insert(0, decide(lab, people.reviewer, subject=phase))
            clock.shift(timedelta(minutes=1))
    decide(lab, people.reviewer)
    assert phase.root is not None
    assert timeline(phase.root) == expected
    assert timeline(phase.root, limit=2) == expected[:2]
    assert timeline(uuid4()) == []
