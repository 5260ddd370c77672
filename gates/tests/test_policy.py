"""Who may answer: the policy's rules one by one, as pure functions."""

import pytest

from gates.policy import Facts, Policy, Timeout, check, faults, reason_owed
from record.errors import BadInput

REVIEWER, ADMINISTRATOR = frozenset({"reviewer"}), frozenset({"administrator"})


def test_the_defaults() -> None:
    policy = Policy.read({})

    assert policy == Policy(who="reviewer", quorum=1, requester_may=True, reason="on_difference", on_timeout=None)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"who": "everyone"}, "who"),
        ({"who": []}, "who"),
        ({"who": ["a", "a"]}, "who"),
        ({"quorum": 0}, "quorum"),
        ({"quorum": "2"}, "quorum"),
        ({"quorum": 3, "who": ["ada", "ben"]}, "3 ballots can't come from 2 people"),
        ({"requester_may": "yes"}, "requester_may"),
        ({"reason": "sometimes"}, "reason"),
        ({"due_s": -5}, "due_s"),
        ({"due_s": 1.5}, "due_s"),
        ({"on_timeout": {"verdict": "approve"}}, "on_timeout"),
        ({"escalate_after_s": 60}, "escalate_to"),
        ({"on_timeout": "approve"}, "due_s"),
        ({"deligable": True}, "deligable"),
    ],
)
def test_a_policy_that_cannot_be_used_is_refused_in_words(given: dict, told: str) -> None:
    assert any(told in fault for fault in faults(given))
    with pytest.raises(BadInput, match="policy can't be used") as refused:
        Policy.read(given)
    assert refused.value.code == "bad_policy"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("block", None),
        ("approve", Timeout("approve", None)),
        ({"verdict": "approve", "answers": {"a": 1}}, Timeout("approve", {"a": 1})),
    ],
)
def test_what_a_time_out_means(given: object, expected: Timeout | None) -> None:
    assert Policy.read({"due_s": 60, "on_timeout": given}).on_timeout == expected


def test_a_default_that_the_protocol_does_not_know() -> None:
    verdicts = ["approve", "reject"]

    assert faults({"due_s": 60, "on_timeout": "bless"}, verdicts=verdicts) == [
        "on_timeout: 'bless' is none of block, approve, reject"
    ]
    assert faults({"due_s": 60, "on_timeout": "block"}, verdicts=verdicts) == []
    assert faults({"due_s": 60, "on_timeout": "reject"}, verdicts=verdicts) == []


@pytest.mark.parametrize(
    ("policy", "facts", "may"),
    [
        ({}, Facts("ada", REVIEWER), True),
        ({}, Facts("ada", ADMINISTRATOR), True),
        ({}, Facts("ada", frozenset({"viewer", "operator"})), False),
        ({}, Facts("ada", frozenset()), False),
        ({"who": "administrator"}, Facts("ada", REVIEWER), False),
        ({"who": "administrator"}, Facts("ada", ADMINISTRATOR), True),
        ({"who": ["ada"]}, Facts("ada", REVIEWER), True),
        ({"who": ["ada"]}, Facts("Ada", REVIEWER), False),
        ({"who": ["ada"]}, Facts("ben", ADMINISTRATOR), False),
        ({"who": ["ada"]}, Facts("ada", frozenset({"viewer"})), False),
        ({"who": ["ada"]}, Facts("ben", REVIEWER, is_delegate=True), True),
        ({"who": ["ada"]}, Facts("ben", frozenset({"viewer"}), is_delegate=True), False),
        ({"requester_may": False}, Facts("ada", REVIEWER, is_requester=True), False),
        ({"requester_may": False}, Facts("ada", REVIEWER, is_requester=True, is_delegate=True), False),
        ({"requester_may": True}, Facts("ada", REVIEWER, is_requester=True), True),
        ({"who": ["ada"], "escalate_to": ["ben"]}, Facts("ben", REVIEWER), False),
        ({"who": ["ada"], "escalate_to": ["ben"]}, Facts("ben", REVIEWER, escalated=True), True),
        ({"who": ["ada"], "escalate_to": ["ben"]}, Facts("cem", REVIEWER, escalated=True), False),
        ({"who": ["ada"], "escalate_to": "administrator"}, Facts("cem", ADMINISTRATOR, escalated=True), True),
        ({}, Facts("director", REVIEWER, kind="agent"), False),
        ({"agents_may": True}, Facts("director", REVIEWER, kind="agent"), True),
        ({"agents_may": True}, Facts("director", frozenset({"viewer"}), kind="agent"), False),
    ],
)
def test_who_may_answer(policy: dict, facts: Facts, may: bool) -> None:
    refusal = check(Policy.read(policy), facts)

    assert (refusal is None) == may
    assert refusal is None or (refusal.code == "not_allowed" and refusal.message)


@pytest.mark.parametrize(
    ("rule", "needs", "differing", "replaces", "owed"),
    [
        ("never", False, ["a"], "", False),
        ("never", True, [], "", True),
        ("never", False, [], "approve by ada", True),
        ("on_difference", False, [], "", False),
        ("on_difference", False, ["a"], "", True),
        ("always", False, [], "", True),
    ],
)
def test_when_a_reason_is_owed(rule: str, needs: bool, differing: list, replaces: str, owed: bool) -> None:
    policy = Policy.read({"reason": rule})

    debt = reason_owed(policy, needs_reason=needs, label="Reject", differing=differing, replaces=replaces)

    assert bool(debt) == owed
