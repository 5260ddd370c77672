"""Named people, the requester, quorum, delegation, override: each rule at a real gate."""

import pytest
from django.contrib.auth.models import User

from gates.errors import ReasonOwed
from gates.models import Gate
from gates.services import Answer, delegate_gate, may_answer
from gates.tests.doubles import answer, ask
from record.access import Role
from record.errors import BadInput, NotAllowed, StaleState
from record.models import Decision, Door, Event, Lab, Membership
from record.services import Author
from record.tests.factories import People, make_person


@pytest.fixture
def ada(lab: Lab):  # type: ignore[no-untyped-def]
    return make_person("ada", lab, Role.REVIEWER)


@pytest.fixture
def ben(lab: Lab):  # type: ignore[no-untyped-def]
    return make_person("ben", lab, Role.REVIEWER)


def hand_on(gate: Gate, author, to: str, reason: str = "On leave."):  # type: ignore[no-untyped-def]
    return delegate_gate(gate_id=gate.pk, author=Author.person(author, Door.WEB), to_username=to, reason=reason)


def test_only_the_named_may_answer(lab: Lab, ada, ben) -> None:  # type: ignore[no-untyped-def]
    gate = ask(lab, policy={"who": ["ada"]})

    with pytest.raises(NotAllowed, match="This gate is for ada"):
        answer(gate, ben)
    assert answer(gate, ada).decision


def test_the_requester_may_not_by_any_way(lab: Lab, ada, ben) -> None:  # type: ignore[no-untyped-def]
    gate = ask(lab, policy={"requester_may": False}, requested_by=ada)

    with pytest.raises(NotAllowed, match="You asked for this gate"):
        answer(gate, ada)
    with pytest.raises(NotAllowed):
        answer(gate, ada, author=Author.person(ada, Door.API))
    with pytest.raises(BadInput, match="somebody else"):
        hand_on(gate, ben, "ada")
    assert answer(gate, ben).decision


def test_a_quorum_needs_that_many_who_agree(lab: Lab, ada, ben) -> None:  # type: ignore[no-untyped-def]
    gate = ask(lab, policy={"quorum": 2})

    first = answer(gate, ada)
    assert first.decision is None and first.message == "Your answer is counted: 1 of 2 that must agree."
    gate.refresh_from_db()
    assert gate.state == "open" and not Decision.objects.exists()

    second = answer(gate, ben)
    assert second.decision and gate.ballots.count() == 2
    assert second.decision.actor == ben


@pytest.mark.parametrize("how", ["removed", "closed"])
def test_who_may_decide_no_more_counts_no_more(how: str, lab: Lab, ada, ben, people: People) -> None:  # type: ignore[no-untyped-def]
    gate = ask(lab, policy={"quorum": 2})
    answer(gate, ada)
    if how == "removed":
        Membership.objects.filter(user=ada).update(role=Role.OPERATOR)
    else:
        User.objects.filter(pk=ada.pk).update(is_active=False)

    second = answer(gate, ben)
    assert second.decision is None and second.message.startswith("Your answer is counted: 1 of 2")
    assert answer(gate, people.reviewer).decision


def test_one_person_counts_once(lab: Lab, ada) -> None:  # type: ignore[no-untyped-def]
    gate = ask(lab, policy={"quorum": 2})
    answer(gate, ada)

    with pytest.raises(StaleState, match="Another person must answer too") as refused:
        answer(gate, ada, author=Author.person(ada, Door.API))

    assert refused.value.code == "already_answered"
    gate.refresh_from_db()
    assert gate.state == "open" and gate.ballots.count() == 1


def test_who_changes_their_mind_replaces_their_ballot(lab: Lab, ada, ben) -> None:  # type: ignore[no-untyped-def]
    gate = ask(lab, policy={"quorum": 2})
    answer(gate, ada, "reject", reason="Too much drift.")
    apart = answer(gate, ben)
    assert "not the same as the answer of ada (reject)" in apart.message

    decided = answer(gate, ada)

    assert decided.decision.verdict == "approve"
    counted = [(ballot.verdict, ballot.replaced_at is None) for ballot in gate.ballots.all()]
    assert counted == [("reject", False), ("approve", True), ("approve", True)]
    assert Event.objects.filter(kind="gate.ballot", data__replaces="reject").count() == 1


def test_agreement_is_in_the_answers_too(lab: Lab, ada, ben, people: People) -> None:  # type: ignore[no-untyped-def]
    gate = ask(lab, policy={"quorum": 2})
    answer(gate, ada)

    assert answer(gate, ben, answers={"threshold": 4}, reason="Weak.").decision is None
    decided = answer(gate, people.reviewer, answers={"threshold": 4}, reason="I see it too.")

    assert decided.decision.statement.answers["threshold"] == 4


def test_rejections_agree_whatever_the_form_says(lab: Lab, ada, ben) -> None:  # type: ignore[no-untyped-def]
    gate = ask(lab, policy={"quorum": 2})
    answer(gate, ada, "reject", answers={"threshold": 1}, reason="Noise.")

    assert answer(gate, ben, "reject", answers={}, reason="Noise.").decision.verdict == "reject"


def test_a_delegate_may_answer(lab: Lab, ada, ben) -> None:  # type: ignore[no-untyped-def]
    gate = ask(lab, policy={"who": ["ada"]})

    hand_on(gate, ada, "ben")

    gate.refresh_from_db()
    assert gate.delegated_to == ben and may_answer(gate, ben) is None
    assert Decision.objects.get(verdict="delegate").statement.answers == {"to": "ben"}
    assert Event.objects.get(kind="gate.delegate").data == {"to": "ben"}
    assert answer(gate, ben).decision.actor == ben


def test_whom_a_gate_cannot_be_handed(lab: Lab, ada, people: People) -> None:  # type: ignore[no-untyped-def]
    gate = ask(lab, policy={"who": ["ada"]})

    for name in ("viewer", "operator", "outsider", "nobody", "", "a\x00b"):
        with pytest.raises(BadInput, match="can't be asked"):
            hand_on(gate, ada, name)
    with pytest.raises(ReasonOwed):
        hand_on(gate, ada, "reviewer", reason=" ")


def test_who_can_hand_a_gate_on(lab: Lab, ada, ben, people: People) -> None:  # type: ignore[no-untyped-def]
    gate = ask(lab, policy={"who": ["ada"]})

    for person in (ben, people.viewer, people.outsider):
        with pytest.raises(NotAllowed):
            hand_on(gate, person, "ben")
    hand_on(gate, people.administrator, "ben")

    with pytest.raises(NotAllowed, match="doesn't let it be handed on"):
        hand_on(ask(lab, policy={"delegable": False}), ada, "ben")


def test_a_delegate_who_lost_the_role_may_not(lab: Lab, ada, ben) -> None:  # type: ignore[no-untyped-def]
    gate = ask(lab, policy={"who": ["ada"]})
    hand_on(gate, ada, "ben")
    Membership.objects.filter(user=ben).update(role=Role.VIEWER)

    with pytest.raises(NotAllowed):
        answer(gate, ben)


def override(gate: Gate, user, **given) -> Answer:  # type: ignore[no-untyped-def]
    return answer(gate, user, override=True, **given)


def test_an_administrator_overrides_with_a_reason(lab: Lab, ada, people: People) -> None:  # type: ignore[no-untyped-def]
    gate = ask(lab, policy={"who": ["ada"], "quorum": 1, "requester_may": False}, requested_by=people.administrator)

    with pytest.raises(NotAllowed):
        answer(gate, people.administrator)
    with pytest.raises(ReasonOwed, match="override needs a reason"):
        override(gate, people.administrator)

    decision = override(gate, people.administrator, reason="Ada is ill, the microscope waits.").decision
    assert decision.override and decision.actor == people.administrator


def test_an_override_passes_over_the_quorum_only_for_administrators(lab: Lab, ada, people: People) -> None:  # type: ignore[no-untyped-def]
    gate = ask(lab, policy={"quorum": 3})

    with pytest.raises(NotAllowed):
        override(gate, ada, reason="I am sure.")
    with pytest.raises(StaleState):
        override(gate, people.administrator, reason="Sure.", seen_digest="0" * 64)
    assert override(gate, people.administrator, reason="Only one of us is left.").decision
