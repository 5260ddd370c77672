"""Accounts and members in the admin: by the same services, recorded, and no password set for another."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import NoReverseMatch, reverse

from conductor_site.api.tokens import make_token
from conductor_site.models import ApiToken
from conductor_site.tests.test_admin import act, said
from record.access import Role
from record.models import Decision, Lab, Membership
from record.tests.factories import People, make_agent_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def keeper(people: People, client: Client) -> User:
    """Who keeps the installation, and is in no lab."""
    user = User.objects.create_superuser("keeper", password="a long enough password")
    client.force_login(user)
    return user


def link_in(answer: Any) -> str:
    found = re.search(r"http://testserver(\S+)", said(answer)[-1])
    assert found, said(answer)
    return found[1]


def test_a_new_lab_gets_its_first_administrator_by_an_invitation(keeper: User, client: Client) -> None:
    lab = Lab.objects.create(name="New lab", slug="new-lab")
    link = link_in(act(client, lab, "invite_an_administrator", "head of the lab"))
    guest = Client()
    guest.post(link, {"username": "head", "new_password1": "a good long one", "new_password2": "a good long one"})
    assert Membership.objects.get(lab=lab).role == "administrator"
    assert [each.door for each in Decision.objects.filter(lab=lab).order_by("number")] == ["admin", "web"]


def test_a_membership_is_added_and_removed_by_the_service(
    keeper: User, people: People, lab: Lab, client: Client
) -> None:
    body = {"lab": lab.pk, "user": people.outsider.pk, "role": Role.VIEWER}
    assert client.post(reverse("admin:record_membership_add"), body).status_code == 302
    row = Membership.objects.get(lab=lab, user=people.outsider)
    assert Decision.objects.get().actor == keeper
    assert act(client, row, "remove", "left").status_code == 302
    assert not Membership.objects.filter(pk=row.pk).exists()
    assert Decision.objects.first().statement.reason == "left"  # type: ignore[union-attr]


def test_the_last_administrator_is_not_removed_here(keeper: User, people: People, lab: Lab, client: Client) -> None:
    row = Membership.objects.get(lab=lab, user=people.administrator)
    assert "the last administrator" in said(act(client, row, "remove", "left"))[-1]
    assert Membership.objects.filter(pk=row.pk).exists()


def test_an_account_is_closed_and_opened(keeper: User, people: People, client: Client) -> None:
    make_token(user=people.viewer, name="script")
    browser = Client()
    browser.force_login(people.viewer)
    assert "have ended" in said(act(client, people.viewer, "close_the_account", "left"))[-1]
    assert browser.get("/").status_code == 302 and not ApiToken.objects.exists()
    assert "open again" in said(act(client, people.viewer, "open_the_account_again", "back"))[-1]
    people.viewer.refresh_from_db()
    assert people.viewer.is_active


def test_closing_a_labs_last_reviewer_takes_the_longer_way(keeper: User, people: People, client: Client) -> None:
    assert "would have no reviewer" in said(act(client, people.reviewer, "close_the_account", "left"))[-1]
    act(client, people.reviewer, "close_the_account_even_if_a_lab_loses_its_last_of_a_role", "left")
    people.reviewer.refresh_from_db()
    assert not people.reviewer.is_active


def test_nobody_sets_a_password_for_another(keeper: User, people: People, client: Client) -> None:
    with pytest.raises(NoReverseMatch):
        reverse("admin:auth_user_password_change", args=[people.viewer.pk])
    page = client.get(reverse("admin:auth_user_change", args=[people.viewer.pk])).content.decode()
    assert 'name="password' not in page and 'name="is_active"' not in page
    assert client.get(reverse("admin:auth_user_add")).status_code == 403
    link = link_in(act(client, people.viewer, "make_a_link_for_a_new_password", "forgotten"))
    assert Client().get(link).status_code == 200


@pytest.mark.parametrize("kept", [{"is_staff": "on"}, {"is_superuser": "on"}])
def test_the_last_keeper_stays_one(keeper: User, client: Client, kept: dict[str, str]) -> None:
    page = reverse("admin:auth_user_change", args=[keeper.pk])
    assert "last who keeps this installation" in client.post(page, kept).content.decode()
    keeper.refresh_from_db()
    assert keeper.is_superuser and keeper.is_staff
    User.objects.create_superuser("second", password="a long enough password")
    assert client.post(page, kept).status_code == 302
    keeper.refresh_from_db()
    assert not (keeper.is_superuser and keeper.is_staff)


def test_the_admins_own_account_is_not_closed_by_itself(keeper: User, client: Client) -> None:
    assert "your own" in said(act(client, keeper, "close_the_account", "x"))[-1]


def test_an_account_is_joined_with_one_of_the_organisation(
    keeper: User, people: People, lab: Lab, client: Client
) -> None:
    url = reverse("admin:conductor_site_externalidentity_add")
    body = {"issuer": "https://id.example.org", "subject": "8c1f", "user": people.viewer.pk}
    assert client.post(url, body).status_code == 302
    assert people.viewer.identities.get().subject == "8c1f"  # type: ignore[attr-defined]
    agent = make_agent_user("reader", lab, Role.VIEWER)
    assert client.post(url, body | {"subject": "other", "user": agent.pk}).status_code == 200
    assert not agent.identities.exists()  # type: ignore[attr-defined]
