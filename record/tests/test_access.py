"""Every role with every ability, and those who have none."""

import pytest
from django.contrib.auth.models import AnonymousUser

from record.access import Ability, Role, can, lab_ids, require, visible
from record.errors import NotAllowed
from record.models import Lab, Membership
from record.tests.factories import People, make_person

TABLE = {
    # who:          view   operate decide override
    "viewer": (True, False, False, False),
    "operator": (True, True, False, False),
    "reviewer": (True, False, True, False),
    "administrator": (True, True, True, True),
    "outsider": (False, False, False, False),
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
