"""What agents suggest at a gate is shown beside the form, and counts for nothing."""

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from gates.advice import advice_at, count_said
from gates.errors import GateClosed, InvalidAnswers, NoSuchGate, ReasonOwed, StaleAnswer
from gates.models import Ballot, Gate, Suggestion
from gates.services import suggest_answer
from gates.tests.doubles import answer, ask
from record.access import Role
from record.canonical import canonical_text, sha256_hex
from record.errors import BadInput, NotAllowed
from record.models import Decision, Door, Event, Lab
from record.services import Author
from record.tests.factories import People, make_agent_user, make_lab, make_person


@pytest.fixture
def agent(lab: Lab) -> Author:
    return Author.person(make_agent_user("reader", lab, Role.REVIEWER), Door.API)


def suggest(gate: Gate, author: Author, verdict: str = "approve", **more: Any) -> Suggestion:
    given = {"answers": {"threshold": 2.5}, "reason": "the residuals are low", "seen_digest": gate.digest} | more
    return suggest_answer(gate_id=gate.pk, author=author, verdict=verdict, **given)


def test_a_suggestion_is_kept_and_decides_nothing(lab: Lab, people: People, agent: Author) -> None:
    gate = ask(lab)
    made = suggest(gate, agent)
    gate.refresh_from_db()
    assert gate.state == "open"
    assert not Ballot.objects.exists() and not Decision.objects.exists()
    assert (made.author_name, made.verdict, made.digest) == ("agent-reader (agent)", "approve", gate.digest)
    assert "agent-reader (agent) suggests" in Event.objects.get(kind="gate.suggest").message
    assert answer(gate, people.reviewer).decision is not None


def test_it_counts_in_no_quorum(lab: Lab, people: People, agent: Author) -> None:
    gate = ask(lab, policy={"quorum": 2})
    suggest(gate, agent)
    assert answer(gate, people.reviewer).decision is None
    assert answer(gate, people.administrator).decision is not None


def test_a_later_one_replaces_it(lab: Lab, people: People, agent: Author) -> None:
    gate = ask(lab)
    suggest(gate, agent)
    suggest(gate, agent, "reject", reason="on second thoughts")
    assert [each.verdict for each in gate.suggestions.filter(replaced_at=None)] == ["reject"]
    assert gate.suggestions.count() == 2


def test_the_people_who_decide_see_it_escaped(lab: Lab, people: People, agent: Author, client: Client) -> None:
    gate = ask(lab)
    suggest(gate, agent, reason="<script>alert(1)</script> looks good")
    client.force_login(people.reviewer)
    page = client.get(reverse("gates:detail", args=[gate.pk])).content.decode()
    assert "Suggested by agents" in page and "agent-reader (agent)" in page
    assert "&lt;script&gt;alert(1)" in page and "<script>alert" not in page
    shown = client.get(f"/api/v1/gates/{gate.pk}/").json()["suggestions"]
    assert [(each["author"], each["verdict"]) for each in shown] == [("agent-reader", "approve")]


def test_people_answer_and_viewers_only_look(lab: Lab, people: People) -> None:
    gate = ask(lab)
    with pytest.raises(NotAllowed, match="Answer the gate"):
        suggest(gate, Author.person(people.reviewer, Door.API))
    with pytest.raises(NotAllowed, match="role reviewer"):
        suggest(gate, Author.person(make_agent_user("looker", lab, Role.VIEWER), Door.API))
    stranger = make_agent_user("stranger", make_lab("third"), Role.REVIEWER)
    with pytest.raises(NoSuchGate):
        suggest(gate, Author.person(stranger, Door.API))
    assert not Suggestion.objects.exists()


def test_it_is_checked_like_an_answer(lab: Lab, people: People, agent: Author) -> None:
    gate = ask(lab)
    for error, changes in (
        (StaleAnswer, {"seen_digest": "0" * 64}),
        (BadInput, {"verdict": "perhaps"}),
        (InvalidAnswers, {"answers": {"threshold": "many"}}),
        (ReasonOwed, {"reason": " "}),
    ):
        with pytest.raises(error):
            suggest(gate, agent, **changes)  # type: ignore[arg-type]
    answer(gate, people.reviewer)
    with pytest.raises(GateClosed):
        suggest(gate, agent)


def test_what_was_seen_of_it_is_kept_with_the_decision(lab: Lab, people: People, agent: Author, client: Client) -> None:
    gate = ask(lab)
    first = suggest(gate, agent, reason="at first sight")
    client.force_login(people.reviewer)
    page = client.get(reverse("gates:detail", args=[gate.pk])).content.decode()
    assert f'name="seen_advice" value="{first.uuid}"' in page
    late = suggest(gate, agent, "reject", reason="on second thoughts")
    decision = answer(gate, people.reviewer, seen_advice=[str(first.uuid)]).decision

    assert decision is not None
    digest = sha256_hex(canonical_text(Suggestion.objects.get(pk=first.pk).facts()))
    assert decision.evidence["advice"] == {str(first.uuid): digest}
    assert Ballot.objects.get().advice == {str(first.uuid): digest}
    told = client.get(reverse("gates:detail", args=[gate.pk])).content.decode()
    assert "at first sight" in told and "replaced by a later one" in told
    assert "on second thoughts" in told and told.count("not shown when it was decided") == 1
    where = client.get(reverse("gates:advice", args=[first.uuid])).headers["Location"]
    assert where.endswith(f"/gates/{gate.pk}/#suggestion-{first.uuid}")
    assert reverse("gates:advice", args=[first.uuid]) in client.get(f"/decisions/{decision.uuid}/").content.decode()
    assert str(late.uuid) not in decision.canonical


def test_one_of_another_gate_is_none_that_was_seen_here(lab: Lab, people: People, agent: Author) -> None:
    other = suggest(ask(lab, key="other"), agent)
    gate = ask(lab)
    with pytest.raises(StaleAnswer, match="no agent gave"):
        answer(gate, people.reviewer, seen_advice=[str(other.uuid)])


def test_an_open_page_is_told_of_a_later_one(lab: Lab, people: People, agent: Author, client: Client) -> None:
    gate = ask(lab)
    suggest(gate, agent)
    client.force_login(people.reviewer)
    url = reverse("gates:pulse", args=[gate.pk]) + f"?state=open&digest={gate.digest}&form=1&advice=1"
    assert client.get(url).status_code == 204
    suggest(gate, agent, "reject", reason="on second thoughts")
    assert "1 answer" in client.get(url).content.decode()


def test_replaced_ones_are_counted_and_not_read(lab: Lab, people: People, agent: Author) -> None:
    """An agent that can't make up its mind makes no page slower."""
    gate = ask(lab)
    first, *_, last = [suggest(gate, agent, reason=f"thought {number}") for number in range(5)]
    with CaptureQueriesContext(connection) as asked:
        advice = advice_at(gate)
    assert ([each.pk for each in advice.suggestions], advice.said) == ([last.pk], 5)
    assert advice.said == count_said(gate) and len(asked) == 2
    answer(gate, people.reviewer, seen_advice=[str(first.uuid)])
    assert [each.pk for each in advice_at(Gate.objects.get(pk=gate.pk)).suggestions] == [first.pk, last.pk]


def test_an_agent_says_no_more_than_can_be_kept(lab: Lab, agent: Author, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gates.services.suggesting.MOST_SUGGESTIONS", 2)
    gate = ask(lab)
    suggest(gate, agent)
    last = suggest(gate, agent, "reject")
    with pytest.raises(BadInput, match="the last one stands"):
        suggest(gate, agent)
    assert gate.suggestions.get(replaced_at=None) == last
    suggest(gate, Author.person(make_agent_user("other", lab, Role.REVIEWER), Door.API))  # which is another's to say


def test_secrets_are_struck_from_it(lab: Lab, people: People, agent: Author) -> None:
    secret = "sk-" + "a1B2" * 6
    made = suggest(ask(lab), agent, reason=f"I read the key {secret}")
    assert secret not in made.reason and "[redacted]" in made.reason


def test_a_stranger_finds_none(lab: Lab, agent: Author, client: Client) -> None:
    made = suggest(ask(lab), agent)
    client.force_login(make_person("stranger", make_lab("third"), Role.VIEWER))
    assert client.get(reverse("gates:advice", args=[made.uuid])).status_code == 404
