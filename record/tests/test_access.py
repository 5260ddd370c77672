"""Every role with every ability, and those who have none."""

import pytest
from django.contrib.auth.models import AnonymousUser

from record.access import Ability, Role, Scope, can, lab_ids, limit_to, require, visible
from record.errors import NotAllowed
from record.models import ActorKind, Door, Lab, Membership
from record.services import Author
from record.tests.factories import People, make_agent_user, make_person

TABLE = {
    # who:          view   operate answer decide override manage
    "viewer": (True, False, False, False, False, False),
    "operator": (True, True, False, False, False, False),
    "reviewer": (True, False, True, True, False, False),
    "administrator": (True, True, True, True, True, True),
    "outsider": (False, False, False, False, False, False),
}


@pytest.mark.parametrize("who", TABLE)
def test_each_role_can_do_what_the_table_says_and_no_more(lab: Lab, people: People, who: str) -> None:
    assert tuple(can(people[who], ability, lab.pk) for ability in Ability) == TABLE[who]


def test_the_table_names_every_role() -> None:
    assert set(TABLE) == set(Role) | {"outsider"}


@pytest.mark.parametrize("ability", Ability)
def test_nobody_in_particular_can_do_nothing(lab: Lab, ability: str) -> None:
    assert not can(AnonymousUser(), ability, lab.pk)


@pytest.mark.parametrize("ability", Ability)
def test_somebody_who_was_deactivated_can_do_nothing(lab: Lab, people: People, ability: str) -> None:
    people.administrator.is_active = False
    assert not can(people.administrator, ability, lab.pk)
    assert not visible(Lab.objects.all(), people.administrator, lab="pk").exists()


def test_a_superuser_without_membership_sees_no_lab(lab: Lab) -> None:
    boss = make_person("boss", lab)
    boss.is_superuser = boss.is_staff = True
    boss.save()
    assert not can(boss, Ability.VIEW, lab.pk)


def test_several_roles_add_up(lab: Lab) -> None:
    both = make_person("both", lab, Role.OPERATOR, Role.REVIEWER)
    assert can(both, Ability.OPERATE, lab.pk) and can(both, Ability.DECIDE, lab.pk)
    assert list(lab_ids(both)) == [lab.pk]


def test_a_refusal_names_the_roles_that_would_do(lab: Lab, people: People) -> None:
    with pytest.raises(NotAllowed, match="reviewer or administrator"):
        require(people.operator, Ability.DECIDE, lab.pk)


def test_visible_leaves_out_other_labs(lab: Lab, people: People) -> None:
    seen = visible(Membership.objects.all(), people.viewer)
    assert {membership.lab_id for membership in seen} == {lab.pk}
    assert visible(Lab.objects.all(), people.outsider, lab="pk").get().slug == "other"


SCOPES = {
    # scope:      view   operate answer decide override manage
    "read": (True, False, False, False, False, False),
    "operate": (True, True, False, False, False, False),
    "decide": (True, False, True, True, True, False),
    "walk": (True, False, False, False, False, False),
    "heartbeat": (False, False, False, False, False, False),
}


def test_the_scopes_are_all_there() -> None:
    assert set(SCOPES) == set(Scope)


@pytest.mark.parametrize("scope", SCOPES)
def test_a_token_narrows_what_its_owner_may(lab: Lab, people: People, scope: str) -> None:
    limit_to(people.administrator, [scope])
    assert tuple(can(people.administrator, ability, lab.pk) for ability in Ability) == SCOPES[scope]
    assert visible(Lab.objects.all(), people.administrator, lab="pk").exists() == SCOPES[scope][0]


def test_a_token_gives_nothing_that_its_owner_may_not(lab: Lab, people: People) -> None:
    limit_to(people.viewer, Scope)
    assert [ability for ability in Ability if can(people.viewer, ability, lab.pk)] == [Ability.VIEW]


def test_a_refusal_names_the_scope_that_would_do(lab: Lab, people: People) -> None:
    limit_to(people.administrator, [Scope.READ, Scope.DECIDE])
    with pytest.raises(NotAllowed, match="with the scope operate"):
        require(people.administrator, Ability.OPERATE, lab.pk)
    with pytest.raises(NotAllowed, match="no token is for that"):
        require(people.administrator, Ability.MANAGE, lab.pk)


def test_an_agent_never_may_what_is_for_people(lab: Lab) -> None:
    agent = make_agent_user("reader", lab, *Role)
    allowed = [ability for ability in Ability if can(agent, ability, lab.pk)]
    assert allowed == [Ability.VIEW, Ability.OPERATE, Ability.ANSWER]
    with pytest.raises(NotAllowed, match="is for people"):
        require(agent, Ability.DECIDE, lab.pk)


def test_an_agent_is_named_as_one_and_passes_for_no_person(lab: Lab, people: People) -> None:
    agent = make_agent_user("reader", lab)
    author = Author.person(agent, Door.API)
    assert (author.kind, author.name) == (ActorKind.AGENT, "agent-reader (agent)")
    with pytest.raises(ValueError, match="acts as nothing else"):
        Author(ActorKind.PERSON, "reader", Door.API, agent)
    with pytest.raises(ValueError, match="acts as nothing else"):
        Author(ActorKind.AGENT, "viewer", Door.API, people.viewer)
