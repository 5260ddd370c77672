"""What waits for whom, oldest first, in a constant number of queries."""

from typing import Any

from gates.inbox import waiting_for, what_waits
from gates.models import Gate
from gates.services import delegate_gate
from gates.tests.doubles import answer, ask
from record.access import Role
from record.models import Door, Lab
from record.services import Author
from record.tests.factories import People, make_person


def test_what_a_reviewer_may_answer(lab: Lab, people: People) -> None:
    ada = make_person("ada", lab, Role.REVIEWER)
    first, second = ask(lab), ask(lab, policy={"who": ["ada"]})
    own = ask(lab, policy={"requester_may": False}, requested_by=people.reviewer)
    voted = ask(lab, policy={"quorum": 2})
    answer(voted, people.reviewer)
    answer(ask(lab), people.reviewer)
    ask(lab, protocol="gone")

    assert waiting_for(people.reviewer) == [first]
    assert waiting_for(ada) == [first, second, own, voted]
    assert list(what_waits([lab.pk])) == [first, second, own, voted]


def test_who_may_decide_nothing_waits_for_nothing(lab: Lab, people: People) -> None:
    from django.contrib.auth.models import AnonymousUser

    ask(lab)
    people.administrator.is_active = False

    for person in (people.viewer, people.operator, people.outsider, people.administrator, AnonymousUser()):
        assert waiting_for(person) == []


def test_a_delegate_finds_it_in_the_inbox(lab: Lab, people: People) -> None:
    make_person("ada", lab, Role.REVIEWER)
    gate = ask(lab, policy={"who": ["ada"]})
    author = Author.person(people.administrator, Door.WEB)

    delegate_gate(gate_id=gate.pk, author=author, to_username="reviewer", reason="Ada is away.")

    assert waiting_for(people.reviewer) == [gate]


def test_a_spoilt_policy_hides_nothing_else(lab: Lab, people: People) -> None:
    bad, good = ask(lab), ask(lab)
    Gate.objects.filter(pk=bad.pk).update(policy={"who": 7})

    assert waiting_for(people.reviewer) == [good]


def test_the_number_of_queries_is_constant(lab: Lab, people: People, django_assert_num_queries: Any) -> None:
    for _ in range(12):
        ask(lab)

    with django_assert_num_queries(3):
        gates = waiting_for(people.reviewer)
        assert len([gate.lab.name for gate in gates]) == 12
