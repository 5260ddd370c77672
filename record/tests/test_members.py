"""Memberships: who may change them, what is recorded, and the last of a role."""

import threading

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction

from record.access import Role
from record.errors import BadInput, ConductorError, NotAllowed
from record.members import LastOfRole, account_subject, members_of, set_roles
from record.models import Decision, Door, Event, Lab, Membership
from record.services import Author
from record.tests.factories import People, make_agent_user, make_person


def by(user: User, door: str = Door.WEB) -> Author:
    return Author.person(user, door)


def roles(lab: Lab, user: User) -> set[str]:
    return set(Membership.objects.filter(lab=lab, user=user).values_list("role", flat=True))


def test_an_administrator_changes_roles_and_it_is_recorded(lab: Lab, people: People) -> None:
    made = set_roles(lab=lab, user=people.viewer, roles=["operator", "reviewer"], author=by(people.administrator))

    assert roles(lab, people.viewer) == {"operator", "reviewer"}
    decision = Decision.objects.get(lab=lab)
    assert decision == made
    assert (decision.verdict, decision.actor, decision.door) == ("set_roles", people.administrator, "web")
    assert (decision.subject_kind, decision.subject_label) == ("account", "viewer")
    assert decision.config_before == {"roles": ["viewer"]}
    assert decision.config_after == {"roles": ["operator", "reviewer"]}
    event = Event.objects.get(kind="member.change")
    assert "viewer is now operator and reviewer (before: viewer), by administrator" in event.message
    assert (event.decision, event.subject_uuid) == (decision, account_subject(people.viewer).uuid)


def test_what_changes_nothing_is_not_recorded(lab: Lab, people: People) -> None:
    assert set_roles(lab=lab, user=people.viewer, roles=["viewer"], author=by(people.administrator)) is None
    assert not Decision.objects.exists() and not Event.objects.exists()


def test_a_member_is_removed(lab: Lab, people: People) -> None:
    set_roles(lab=lab, user=people.viewer, roles=[], author=by(people.administrator), reason="left the institute")
    assert roles(lab, people.viewer) == set()
    assert Decision.objects.get().statement.reason == "left the institute"


@pytest.mark.parametrize("who", ["viewer", "operator", "reviewer", "outsider"])
def test_others_change_nothing(lab: Lab, people: People, who: str) -> None:
    with pytest.raises(NotAllowed):
        set_roles(lab=lab, user=people[who], roles=["administrator"], author=by(people[who]))
    assert not Decision.objects.exists()


def test_the_keeper_of_the_installation_acts_from_the_admin_alone(lab: Lab, people: People) -> None:
    keeper = User.objects.create_superuser("keeper")
    with pytest.raises(NotAllowed):
        set_roles(lab=lab, user=people.viewer, roles=["operator"], author=by(keeper))
    set_roles(lab=lab, user=people.viewer, roles=["operator"], author=by(keeper, Door.ADMIN))
    assert Decision.objects.get().door == "admin"


@pytest.mark.parametrize("role", ["reviewer", "administrator"])
def test_the_last_of_a_role_is_not_lost_unnoticed(lab: Lab, people: People, role: str) -> None:
    author = by(people.administrator)
    with pytest.raises(LastOfRole, match=f"the last {role} of Tomography"):
        set_roles(lab=lab, user=people[role], roles=["viewer"], author=author)
    with pytest.raises(BadInput, match="Say why"):
        set_roles(lab=lab, user=people[role], roles=["viewer"], author=author, confirmed=True, reason=" ")
    assert roles(lab, people[role]) == {role} and not Decision.objects.exists()

    set_roles(lab=lab, user=people[role], roles=["viewer"], author=author, confirmed=True, reason="the lab closes")
    decision = Decision.objects.get()
    assert decision.override and decision.statement.reason == "the lab closes"
    assert roles(lab, people[role]) == {"viewer"}


def test_closed_accounts_and_agents_count_for_nobody(lab: Lab, people: People) -> None:
    closed = make_person("closed", lab, Role.REVIEWER)
    User.objects.filter(pk=closed.pk).update(is_active=False)
    make_agent_user("reader", lab, Role.REVIEWER)
    with pytest.raises(LastOfRole):
        set_roles(lab=lab, user=people.reviewer, roles=[], author=by(people.administrator))
    make_person("second", lab, Role.REVIEWER)
    assert set_roles(lab=lab, user=people.reviewer, roles=[], author=by(people.administrator))


def test_an_agent_is_no_administrator_and_of_its_own_lab_alone(lab: Lab, people: People) -> None:
    agent = make_agent_user("reader", lab)
    with pytest.raises(BadInput, match="for people"):
        set_roles(lab=lab, user=agent, roles=["administrator"], author=by(people.administrator))
    with pytest.raises(BadInput, match="another lab"):
        set_roles(lab=Lab.objects.get(slug="other"), user=agent, roles=["viewer"], author=by(people.outsider))
    assert not Membership.objects.filter(user=agent).exists()


def test_a_role_that_is_none_is_refused(lab: Lab, people: People) -> None:
    with pytest.raises(BadInput, match="no role boss"):
        set_roles(lab=lab, user=people.viewer, roles=["boss"], author=by(people.administrator))


def test_members_are_told_with_all_their_roles_agents_last(
    lab: Lab, people: People, django_assert_num_queries: object
) -> None:
    make_agent_user("a-reader", lab, Role.VIEWER)
    make_person("both", lab, Role.REVIEWER, Role.OPERATOR)
    with django_assert_num_queries(1):  # type: ignore[operator]
        found = [(member.user.username, member.roles, member.kind) for member in members_of(lab)]
    assert found[1] == ("both", ("operator", "reviewer"), "person")
    assert found[-1] == ("agent-a-reader", ("viewer",), "agent")
    assert "outsider" not in [name for name, _, _ in found]


@pytest.mark.django_db(transaction=True)
def test_two_last_administrators_who_remove_each_other_leave_one(lab: Lab, people: People) -> None:
    second = make_person("second", lab, Role.ADMINISTRATOR)
    start, refused = threading.Barrier(2), []

    def remove(one: User, other: User) -> None:
        try:
            start.wait()
            set_roles(lab=lab, user=other, roles=[], author=by(one))
        except ConductorError as error:
            refused.append(error)
        finally:
            connection.close()

    pairs = [(people.administrator, second), (second, people.administrator)]
    threads = [threading.Thread(target=remove, args=pair) for pair in pairs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with transaction.atomic():
        left = Membership.objects.filter(lab=lab, role=Role.ADMINISTRATOR).count()
    assert left == 1 and len(refused) == 1
