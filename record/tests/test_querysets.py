"""Lists of decisions: whose they are, found by their words, in few queries."""

from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser

from record.access import visible
from record.forms import DecisionFilter
from record.models import Decision, Event, Lab
from record.services import Author, record_event, strike_statement
from record.tests.factories import People, decide, make_subject


@pytest.fixture
def elsewhere(people: People) -> Decision:
    return decide(Lab.objects.get(slug="other"), people.outsider, reason="elsewhere")


def test_people_see_the_decisions_and_events_of_their_labs(lab: Lab, people: People, elsewhere: Decision) -> None:
    mine = decide(lab, people.reviewer)
    event = record_event(lab_id=lab.pk, kind="run.create", subject=make_subject())
    for person in (people.viewer, people.operator, people.reviewer, people.administrator):
        assert list(visible(Decision.objects.all(), person)) == [mine]
        assert list(visible(Event.objects.all(), person)) == [event]
    assert list(visible(Decision.objects.all(), people.outsider)) == [elsewhere]
    assert not visible(Event.objects.all(), people.outsider).exists()
    assert not visible(Decision.objects.all(), AnonymousUser()).exists()


def found(**asked: str) -> list[Decision]:
    return list(DecisionFilter(asked).narrow(Decision.objects.all()))


def test_decisions_are_found_by_their_words_and_newest_first(lab: Lab, people: People) -> None:
    approved = decide(lab, people.reviewer, reason="Layers are SHARP")
    rejected = decide(
        lab, people.administrator, verdict="send_back", reason="blurred", subject=make_subject("phase pick")
    )
    assert found() == [rejected, approved]
    assert found(q="sharp layers") == [approved]
    assert found(q="administrator") == found(q="phase pick") == found(verdict="send back") == [rejected]
    assert found(q="100%") == found(q="sharp", verdict="send back") == []
    assert found(actor_kind="policy") == []
    assert found(actor_kind="nonsense") == [rejected, approved]


def test_a_struck_reason_is_not_found_any_more(lab: Lab, people: People) -> None:
    decision = decide(lab, people.reviewer, reason="password hunter2")
    strike_statement(decision=decision, author=Author.person(people.administrator, "cli"), reason="a password")
    assert found(q="hunter2") == []


def test_a_list_is_one_query(lab: Lab, people: People, django_assert_num_queries: Any) -> None:
    for _ in range(3):
        decide(lab, people.reviewer)
    with django_assert_num_queries(1):
        rows = list(Decision.objects.in_full())
        assert {(row.lab.name, row.actor.username, str(row.statement)) for row in rows} == {
            ("Tomography", "reviewer", "")
        }
