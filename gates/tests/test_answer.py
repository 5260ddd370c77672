"""An answer decides; what comes after it is refused with who decided, when and how."""

import pytest

from gates.errors import GateClosed, InvalidAnswers, NoSuchGate, ReasonOwed
from gates.models import Gate
from gates.services import may_answer
from gates.tests.doubles import answer, ask
from record.errors import BadInput, NotAllowed
from record.models import Decision, Door, Event, Lab
from record.services import Author, strike_statement
from record.tests.factories import People, make_agent_user


def test_an_answer_decides(lab: Lab, people: People) -> None:
    gate = ask(lab)

    answered = answer(gate, people.reviewer)

    gate.refresh_from_db()
    decision = Decision.objects.get(gate_uuid=gate.uuid)
    assert (gate.state, gate.decision) == ("decided", decision) and answered.decision == decision
    assert (decision.verdict, decision.actor, decision.door) == ("approve", people.reviewer, "web")
    assert (decision.subject_uuid, decision.iteration) == (gate.subject_uuid, 1)
    assert decision.statement.answers == {"threshold": 2.5, "remark": ""}
    assert decision.evidence == {"digest": gate.digest, "items": {}}
    assert [event.kind for event in Event.objects.filter(subject_uuid=gate.uuid).order_by("id")] == [
        "gate.request",
        "gate.open",
        "gate.ballot",
        "gate.decide",
    ]


def test_a_struck_statement_is_gone_from_the_ballot_too(lab: Lab, people: People) -> None:
    gate = ask(lab)
    decision = answer(gate, people.reviewer, "reject", reason="the password is hunter2").decision
    assert decision is not None
    author = Author.person(people.administrator, Door.CLI)
    strike_statement(decision=decision, author=author, reason="a password had been pasted")
    ballot = gate.ballots.get()
    assert (ballot.verdict, ballot.reason, ballot.answers) == ("reject", "", {})


def test_the_second_is_told_who_decided_when_and_how(lab: Lab, people: People) -> None:
    gate = ask(lab)
    answer(gate, people.reviewer, "reject", reason="Nothing but noise.")

    with pytest.raises(GateClosed) as refused:
        answer(gate, people.administrator)

    assert refused.value.code == "decided" and refused.value.status == 409
    assert "reject by reviewer on " in refused.value.message
    assert refused.value.extra["by"] == "reviewer" and refused.value.extra["verdict"] == "reject"
    assert Decision.objects.count() == 1


def test_an_outsider_is_told_that_there_is_no_such_gate(lab: Lab, people: People) -> None:
    gate = ask(lab)

    with pytest.raises(NoSuchGate):
        answer(gate, people.outsider)

    refusal = may_answer(gate, people.outsider)
    assert refusal and refusal.code == "not_allowed"
    assert not gate.ballots.exists()


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_those_who_may_not_decide_are_told_whom_to_ask(lab: Lab, people: People, role: str) -> None:
    gate = ask(lab)

    with pytest.raises(NotAllowed, match="role reviewer or administrator"):
        answer(gate, people[role])


def test_an_inactive_person_has_no_say(lab: Lab, people: People) -> None:
    gate = ask(lab)
    people.reviewer.is_active = False
    people.reviewer.save()

    with pytest.raises(NoSuchGate):
        answer(gate, people.reviewer)


def test_an_agent_may_not_decide_unless_the_policy_says_so(lab: Lab, people: People) -> None:
    agent = Author.person(make_agent_user("director", lab, "reviewer"), Door.API)
    closed, opened = ask(lab), ask(lab, policy={"agents_may": True})

    with pytest.raises(NotAllowed, match="doesn't let agents"):
        answer(closed, people.reviewer, author=agent)

    decision = answer(opened, people.reviewer, author=agent).decision
    assert decision is not None
    assert (decision.actor_kind, decision.actor_name) == ("agent", "agent-director (agent)")
    assert opened.ballots.get().voter_kind == "agent"
    assert Event.objects.get(kind="gate.decide").message.endswith("by agent-director (agent)")


def test_the_policy_cannot_be_passed_for_a_person(lab: Lab, people: People) -> None:
    with pytest.raises(NotAllowed, match="signed in"):
        answer(ask(lab), people.reviewer, author=Author.policy("somebody"))


@pytest.mark.parametrize(
    ("answers", "field"),
    [
        ({"threshold": 11}, "threshold"),
        ({"threshold": "nan"}, "threshold"),
        ({"threshold": float("inf")}, "threshold"),
        ({"threshold": True}, "threshold"),
        ({"threshold": [1]}, "threshold"),
        ({}, "threshold"),
        ({"threshold": 1, "treshold": 2}, "treshold"),
        ({"threshold": 1, "remark": "a\x00b"}, "remark"),
    ],
)
def test_answers_that_the_form_refuses(lab: Lab, people: People, answers: dict, field: str) -> None:
    gate = ask(lab)

    with pytest.raises(InvalidAnswers) as refused:
        answer(gate, people.reviewer, answers=answers, reason="Different.")

    assert field in refused.value.extra["errors"] and refused.value.status == 400
    assert Gate.objects.get().state == "open"


@pytest.mark.parametrize("answers", [None, [], "threshold", 7])
def test_answers_that_are_no_fields(lab: Lab, people: People, answers: object) -> None:
    with pytest.raises(InvalidAnswers, match="field -> value"):
        answer(ask(lab), people.reviewer, answers=answers)


def test_the_form_of_a_page_is_read_alike(lab: Lab, people: People) -> None:
    from django.http import QueryDict

    gate = ask(lab)
    posted = QueryDict("csrfmiddlewaretoken=x&verdict=approve&reason=&threshold=2.50&button=go")

    assert answer(gate, people.reviewer, answers=posted).decision.statement.answers["threshold"] == 2.5


@pytest.mark.parametrize("verdict", ["maybe", "", "x" * 1000, "decide", ["approve"], None, 1])
def test_an_unknown_verdict(lab: Lab, people: People, verdict: object) -> None:
    with pytest.raises(BadInput) as refused:
        answer(ask(lab), people.reviewer, verdict)

    assert refused.value.code == "bad_verdict"
    assert refused.value.extra["verdicts"] == ["approve", "send_back", "reject"]


@pytest.mark.parametrize("verdict", ["send_back", "reject"])
def test_a_refusal_owes_a_reason_whatever_the_policy(lab: Lab, people: People, verdict: str) -> None:
    gate = ask(lab, policy={"reason": "never"})

    with pytest.raises(ReasonOwed):
        answer(gate, people.reviewer, verdict, reason="  \n ")

    assert answer(gate, people.reviewer, verdict, answers={}, reason="Drift.").decision.verdict == verdict


def test_a_refusal_need_not_fill_in_the_form_but_what_it_says_must_hold(lab: Lab, people: People) -> None:
    with pytest.raises(InvalidAnswers):
        answer(ask(lab), people.reviewer, "reject", answers={"threshold": 99}, reason="No.")


def test_a_difference_from_the_suggestion_owes_a_reason(lab: Lab, people: People) -> None:
    gate = ask(lab)

    with pytest.raises(ReasonOwed, match="threshold") as refused:
        answer(gate, people.reviewer, answers={"threshold": 3})

    assert refused.value.extra == {"differing": ["threshold"]}
    assert answer(gate, people.reviewer, answers={"threshold": 3}, reason="Weak peaks.").decision


@pytest.mark.parametrize(("rule", "owed"), [("always", True), ("never", False), ("on_difference", False)])
def test_when_agreement_owes_a_reason(lab: Lab, people: People, rule: str, owed: bool) -> None:
    gate = ask(lab, policy={"reason": rule})

    if owed:
        with pytest.raises(ReasonOwed):
            answer(gate, people.reviewer)
    else:
        assert answer(gate, people.reviewer, answers={"threshold": "2.50", "remark": "fine"}).decision


@pytest.mark.parametrize("reason", ["a\x00b", "\ud800", "x" * 10_001, 7])
def test_reasons_that_cannot_be_kept(lab: Lab, people: People, reason: object) -> None:
    with pytest.raises(BadInput):
        answer(ask(lab), people.reviewer, reason=reason)


def test_hostile_text_is_kept_as_it_is(lab: Lab, people: People) -> None:
    text = "<script>alert(1)</script> '; DROP TABLE gates; -- \u202e \U0001f9ea"

    decision = answer(ask(lab), people.reviewer, answers={"threshold": 2.5, "remark": text}, reason=text).decision

    assert decision.statement.reason == decision.statement.answers["remark"] == text


def test_a_gate_whose_protocol_is_unknown_can_be_read_not_answered(lab: Lab, people: People) -> None:
    gate = ask(lab)
    Gate.objects.update(protocol="gone")
    gate.refresh_from_db()

    refusal = may_answer(gate, people.reviewer)

    assert refusal and refusal.code == "unknown_protocol" and "'gone'" in refusal.message
    assert refusal.error().status == 409
