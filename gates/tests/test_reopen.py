"""Asking again, and taking the question back."""

from typing import Any
from uuid import uuid4

import pytest

from gates.errors import GateClosed, ReasonOwed
from gates.models import Gate
from gates.services import apply_gate, reopen_gate, request_gate, withdraw_gate
from gates.subjects import Renewal
from gates.tests.doubles import Keeper, answer, ask
from record.errors import BadInput, NotAllowed, StaleState
from record.models import Decision, Door, Event, Lab
from record.services import Author, Subject
from record.tests.factories import People


def by(user: Any) -> Author:
    return Author.person(user, Door.WEB)


@pytest.fixture
def applied(lab: Lab, people: People) -> Gate:
    gate = ask(lab, requested_by=people.operator)
    answer(gate, people.reviewer)
    apply_gate(gate.pk)
    gate.refresh_from_db()
    return gate


def test_a_new_iteration_keeps_the_old(applied: Gate, people: People, keeper: Keeper) -> None:
    before = Gate.objects.filter(pk=applied.pk).values().get()

    fresh = reopen_gate(gate_id=applied.pk, author=by(people.reviewer), reason="The mask was wrong.")

    assert Gate.objects.filter(pk=applied.pk).values().get() == before
    assert (fresh.iteration, fresh.previous, fresh.state) == (2, applied, "open")
    assert fresh.requested_by == people.operator and keeper.calls[-1] == ("reopened", fresh.pk)
    said = Decision.objects.get(verdict="reopen")
    assert (said.statement.reason, said.gate_uuid, said.iteration) == ("The mask was wrong.", applied.uuid, 1)
    assert Event.objects.get(kind="gate.reopen").decision == said


def test_the_policy_is_read_anew(applied: Gate, people: People, keeper: Keeper) -> None:
    keeper.fresh = Renewal("threshold", "Choose again", "run one", {"x": 1}, {"who": ["administrator"], "quorum": 1})

    fresh = reopen_gate(gate_id=applied.pk, author=by(people.reviewer), reason="New rules.")

    assert (fresh.policy["who"], fresh.title, fresh.options) == (["administrator"], "Choose again", {"x": 1})
    assert applied.policy == {}
    with pytest.raises(NotAllowed):
        answer(fresh, people.reviewer, reason="Again.")


def test_a_renewed_policy_that_cannot_be_used_changes_nothing(applied: Gate, people: People, keeper: Keeper) -> None:
    keeper.fresh = Renewal("threshold", "t", "c", {}, {"quorum": 0})

    with pytest.raises(BadInput):
        reopen_gate(gate_id=applied.pk, author=by(people.reviewer), reason="New rules.")
    assert Gate.objects.count() == 1


def test_the_next_decision_supersedes_with_a_reason(applied: Gate, people: People) -> None:
    fresh = reopen_gate(gate_id=applied.pk, author=by(people.reviewer), reason="Look again.")

    with pytest.raises(ReasonOwed, match="replaces an earlier decision"):
        answer(fresh, people.reviewer)
    decision = answer(fresh, people.reviewer, reason="The same, with the right mask.").decision

    assert decision.supersedes == applied.decision and decision.iteration == 2


def test_it_supersedes_the_last_that_was_decided(lab: Lab, applied: Gate, people: People) -> None:
    second = reopen_gate(gate_id=applied.pk, author=by(people.reviewer), reason="Look again.")
    withdraw_gate(gate_id=second.pk, author=by(people.reviewer), reason="Not now.")
    third = reopen_gate(gate_id=second.pk, author=by(people.reviewer), reason="Now.")

    assert answer(third, people.reviewer, reason="Yes.").decision.supersedes == applied.decision


def test_new_work_at_the_same_gate_supersedes_nothing(applied: Gate, people: People) -> None:
    author = Author.policy("the phase has come to this gate again")

    fresh = reopen_gate(gate_id=applied.pk, author=author, reason="Attempt 2.")

    assert not Decision.objects.filter(verdict="reopen").exists()
    assert Event.objects.get(kind="gate.reopen").decision is None
    decision = answer(fresh, people.reviewer).decision
    assert (decision.supersedes, decision.iteration) == (None, 2)


@pytest.mark.parametrize("who", ["viewer", "operator", "outsider"])
def test_who_may_not_reopen(applied: Gate, people: People, who: str) -> None:
    with pytest.raises(NotAllowed):
        reopen_gate(gate_id=applied.pk, author=by(people[who]), reason="Again.")


def test_reopening_owes_a_reason_and_goes_once(applied: Gate, people: People) -> None:
    with pytest.raises(ReasonOwed):
        reopen_gate(gate_id=applied.pk, author=by(people.reviewer), reason="")
    reopen_gate(gate_id=applied.pk, author=by(people.reviewer), reason="Again.")

    with pytest.raises(GateClosed, match="reopened already: iteration 2 is open"):
        reopen_gate(gate_id=applied.pk, author=by(people.reviewer), reason="Again.")


def test_the_same_gate_is_not_asked_for_twice(lab: Lab) -> None:
    subject = Subject("thing", uuid4(), "thing two")
    ask(lab, subject=subject)

    with pytest.raises(StaleState, match="asked for already"):
        ask(lab, subject=subject)
    assert Gate.objects.count() == 1


def test_a_gate_with_a_bad_policy_is_not_asked_for(lab: Lab) -> None:
    with pytest.raises(BadInput, match="policy can't be used"):
        ask(lab, policy={"who": 7})
    assert not Gate.objects.exists()


def test_a_gate_of_an_unknown_protocol_says_so(lab: Lab) -> None:
    gate = ask(lab, protocol="gone")

    assert gate.state == "prepare_failed" and "'gone'" in gate.error


def test_withdrawing_is_recorded_and_told(lab: Lab, people: People, keeper: Keeper) -> None:
    gate = ask(lab)

    withdraw_gate(gate_id=gate.pk, author=by(people.operator), reason="Wrong data set.")

    gate.refresh_from_db()
    assert gate.state == "withdrawn" and gate.ended_at and keeper.calls == [("closed", gate.pk)]
    assert Decision.objects.get().verdict == "withdraw"
    with pytest.raises(GateClosed, match="withdrawn"):
        answer(gate, people.reviewer)


def test_withdrawing_owes_a_reason_unless_another_decision_says_it(lab: Lab, people: People) -> None:
    first, second = ask(lab), ask(lab)
    with pytest.raises(ReasonOwed):
        withdraw_gate(gate_id=first.pk, author=by(people.operator))
    withdraw_gate(gate_id=first.pk, author=by(people.operator), reason="The run is cancelled.")
    said = Decision.objects.get()

    withdraw_gate(gate_id=second.pk, author=by(people.operator), decision=said)

    assert Decision.objects.count() == 1
    assert set(Event.objects.filter(kind="gate.withdraw").values_list("decision", flat=True)) == {None, said.pk}


@pytest.mark.parametrize("who", ["viewer", "outsider"])
def test_who_may_not_withdraw(lab: Lab, people: People, who: str) -> None:
    with pytest.raises(NotAllowed):
        withdraw_gate(gate_id=ask(lab).pk, author=by(people[who]), reason="No.")


def test_the_work_itself_may_withdraw(lab: Lab) -> None:
    gate = ask(lab)

    withdraw_gate(gate_id=gate.pk, author=Author.policy("the phase runs again"), reason="It runs again.")

    assert Gate.objects.get().state == "withdrawn" and not Decision.objects.exists()


def test_a_gate_remembers_who_asked(lab: Lab, people: People) -> None:
    gate = request_gate(
        lab_id=lab.pk,
        subject=Subject("thing", uuid4(), "thing"),
        key="k",
        protocol="threshold",
        title="t" * 300,
        context="c" * 400,
        options={},
        policy={},
        requested_by=people.operator,
    )

    assert (gate.requested_by, len(gate.title), len(gate.context)) == (people.operator, 200, 300)
