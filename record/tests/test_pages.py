"""The record as pages."""

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries

from record.models import Door, Lab
from record.services import Author, strike_statement
from record.tests.factories import People, decide

HOSTILE = "<script>alert(1)</script>"


def test_decisions_are_found_by_words_and_verdict(client: Client, lab: Lab, people: People) -> None:
    decide(lab, people.reviewer, reason="the fiducials are well tracked")
    decide(lab, people.administrator, verdict="reject", reason="streaks in XZ")
    client.force_login(people.viewer)
    url = reverse("record:decisions")

    def found(**query: str) -> tuple[bool, bool]:
        text = client.get(url, query).content.decode()
        return "fiducials are" in text, "streaks in" in text

    assert found() == (True, True)
    assert found(q="fiducials reviewer") == (True, False)
    assert found(verdict="reject") == (False, True)
    assert found(actor_kind="policy") == (False, False)
    assert found(actor_kind="nonsense") == (True, True)


def test_an_outsider_finds_nothing(client: Client, lab: Lab, people: People) -> None:
    decision = decide(lab, people.reviewer, reason="secret plan")
    client.force_login(people.outsider)
    assert "secret plan" not in client.get(reverse("record:decisions")).content.decode()
    assert client.get(reverse("record:decision", args=[decision.uuid])).status_code == 404


def test_a_decision_shows_its_place_in_the_chain_and_what_it_changed(client: Client, lab: Lab, people: People) -> None:
    first = decide(lab, people.reviewer, reason=HOSTILE, config_before={"DIM": "32"}, config_after={"DIM": "64"})
    second = decide(lab, people.reviewer, verdict="reject", supersedes=first, reason="it was wrong")
    client.force_login(people.viewer)
    text = client.get(reverse("record:decision", args=[first.uuid])).content.decode()
    assert first.digest in text and "DIM" in text and "64" in text
    assert f"decision {second.number}" in text
    assert HOSTILE not in text and "&lt;script&gt;" in text


def test_a_struck_statement_is_gone(client: Client, lab: Lab, people: People) -> None:
    decision = decide(lab, people.reviewer, reason="my password is hunter2")
    author = Author.person(people.administrator, Door.WEB)
    strike_statement(decision=decision, author=author, reason="a password was pasted")
    client.force_login(people.viewer)
    for url in (reverse("record:decisions"), reverse("record:decision", args=[decision.uuid])):
        text = client.get(url).content.decode()
        assert "hunter2" not in text and "truck" in text


@pytest.mark.parametrize("number", [1, 20])
def test_the_list_takes_a_constant_number_of_queries(
    client: Client, lab: Lab, people: People, django_assert_max_num_queries: DjangoAssertNumQueries, number: int
) -> None:
    for _ in range(number):
        decide(lab, people.reviewer)
    client.force_login(people.viewer)
    client.get(reverse("record:decisions"))  # the session's first page notes when it began
    with django_assert_max_num_queries(8):
        client.get(reverse("record:decisions"))
