"""Passwords: changed with the old one, or by a one-time link that not everybody may make."""

import io
import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from conductor_site.accounts.invitations import accept_with_new_account, invite
from conductor_site.accounts.passwords import make_password_link
from conductor_site.accounts.tests.test_invitations import by, link_on
from conductor_site.api.tokens import make_token
from conductor_site.models import ApiToken, OneTimeLink, SignInFailure
from conductor_site.signin import FAILURES_A_NAME
from record.access import Role
from record.errors import BadInput, NotAllowed
from record.members import set_roles
from record.models import Door, Event, Lab, Membership
from record.services import Author
from record.tests.factories import PASSWORD, People, make_agent_user

pytestmark = pytest.mark.django_db
NEW = "quite another password"


def signed_in(username: str, password: str = PASSWORD) -> Client:
    client = Client()
    assert client.post(reverse("login"), {"username": username, "password": password}).status_code == 302
    return client


def change(client: Client, old: str = PASSWORD, new: str = NEW, again: str = NEW) -> Any:
    body = {"old_password": old, "new_password1": new, "new_password2": again}
    return client.post(reverse("account:password"), body)


def test_a_password_is_changed_and_other_browsers_are_signed_out(people: People) -> None:
    here, there = signed_in("viewer"), signed_in("viewer")
    assert change(here).headers["Location"] == reverse("account:me")
    assert here.get("/").status_code == 200
    assert there.get("/").status_code == 302
    signed_in("viewer", NEW)


def test_the_old_password_can_not_be_guessed_in_an_open_browser(people: People) -> None:
    here = signed_in("viewer")
    for _ in range(FAILURES_A_NAME):
        assert "not your password" in change(here, old="guess").content.decode()
    assert SignInFailure.objects.count() == FAILURES_A_NAME
    answer = change(here)
    assert answer.status_code == 429 and "Too many" in answer.content.decode()


def test_a_password_that_will_not_do_changes_nothing(people: People) -> None:
    here = signed_in("viewer")
    assert "too common" in change(here, new="password12", again="password12").content.decode()
    assert "not the same" in change(here, again="x").content.decode()
    signed_in("viewer")


def test_an_administrator_makes_a_link_and_the_member_sets_a_password(lab: Lab, people: People) -> None:
    old_browser = signed_in("viewer")
    make_token(user=people.viewer, name="script")
    admin = signed_in("administrator")
    link = link_on(admin.post(reverse("labs:password-link", args=[lab.pk, people.viewer.pk])))

    guest = Client()
    assert "New password for viewer" in guest.get(link).content.decode()
    answer = guest.post(link, {"new_password1": NEW, "new_password2": NEW})
    assert answer.headers["Location"] == reverse("home")
    assert guest.get("/").status_code == 200
    assert old_browser.get("/").status_code == 302
    assert not ApiToken.objects.exists()
    assert guest.post(link, {"new_password1": NEW, "new_password2": NEW}).status_code == 410
    told = [event.message for event in Event.objects.filter(kind="account.password").order_by("id")]
    assert "administrator made a link" in told[0] and "viewer set a new password" in told[1]


def test_a_link_lets_the_owner_in_while_strangers_guess(lab: Lab, people: People) -> None:
    stranger = Client()
    for _ in range(FAILURES_A_NAME):
        stranger.post(reverse("login"), {"username": "viewer", "password": "wrong"})
    made = make_password_link(user=people.viewer, author=by(people.administrator))
    owner = Client()
    owner.post(reverse("new-password", args=[made.secret]), {"new_password1": NEW, "new_password2": NEW})
    owner.post(reverse("logout"))
    assert owner.post(reverse("login"), {"username": "viewer", "password": NEW}).status_code == 302


def test_whoever_belongs_to_another_lab_too_is_not_taken_over(lab: Lab, people: People) -> None:
    other = Lab.objects.get(slug="other")
    Membership.objects.create(lab=other, user=people.viewer, role=Role.VIEWER)
    with pytest.raises(NotAllowed, match="keeps this installation"):
        make_password_link(user=people.viewer, author=by(people.administrator))
    page = signed_in("administrator").get(reverse("labs:member", args=[lab.pk, people.viewer.pk]))
    assert "Forgotten password" not in page.content.decode()


def test_whoever_is_added_by_name_is_not_taken_over(lab: Lab, people: People) -> None:
    """An account that is in no lab just now can be added by any administrator, who must not come to hold it."""
    User.objects.create_user("left", password=PASSWORD)
    administrator = signed_in("administrator")
    administrator.post(reverse("labs:add", args=[lab.pk]), {"username": "left", "role": "viewer"})
    left = User.objects.get(username="left")
    assert left.memberships.count() == 1
    with pytest.raises(NotAllowed, match="keeps this installation"):
        make_password_link(user=left, author=by(people.administrator))
    page = administrator.get(reverse("labs:member", args=[lab.pk, left.pk]))
    assert page.status_code == 200 and "Forgotten password" not in page.content.decode()


def test_whoever_has_left_another_lab_is_not_taken_over(lab: Lab, people: People) -> None:
    other = Lab.objects.get(slug="other")
    policy = Author.policy("test")
    set_roles(lab=other, user=people.viewer, roles=["viewer"], author=policy)
    set_roles(lab=other, user=people.viewer, roles=[], author=policy)
    with pytest.raises(NotAllowed, match="once belonged"):
        make_password_link(user=people.viewer, author=by(people.administrator))


def test_who_came_by_an_invitation_gets_a_link(lab: Lab, people: People) -> None:
    made = invite(lab=lab, role="viewer", author=by(people.administrator))
    joined = accept_with_new_account(secret=made.secret, username="newcomer", password=NEW)
    set_roles(lab=lab, user=joined, roles=["viewer", "operator"], author=by(people.administrator))
    assert make_password_link(user=joined, author=by(people.administrator)).secret


def test_whoever_may_enter_the_admin_is_not_taken_over(lab: Lab, people: People) -> None:
    User.objects.filter(pk=people.viewer.pk).update(is_staff=True)
    with pytest.raises(NotAllowed):
        make_password_link(user=User.objects.get(pk=people.viewer.pk), author=by(people.administrator))


def test_a_keeper_of_the_installation_is_not_taken_over(lab: Lab, people: People) -> None:
    keeper = User.objects.create_superuser("keeper")
    Membership.objects.create(lab=lab, user=keeper, role=Role.VIEWER)
    with pytest.raises(NotAllowed):
        make_password_link(user=keeper, author=by(people.administrator))
    assert make_password_link(user=people.outsider, author=by(keeper, Door.ADMIN)).secret
    with pytest.raises(NotAllowed):
        make_password_link(user=people.outsider, author=by(keeper))


def test_a_new_link_replaces_the_old(lab: Lab, people: People) -> None:
    first = make_password_link(user=people.viewer, author=by(people.administrator))
    make_password_link(user=people.viewer, author=by(people.administrator))
    assert Client().get(reverse("new-password", args=[first.secret])).status_code == 410


def test_agents_have_no_password(lab: Lab, people: People) -> None:
    agent = make_agent_user("reader", lab, Role.VIEWER)
    with pytest.raises(BadInput, match="only tokens"):
        make_password_link(user=agent, author=by(people.administrator))


def test_the_command_line_makes_a_link(people: People, settings: Any) -> None:
    settings.BASE_URL = "https://conductor.example.org"
    out = io.StringIO()
    call_command("password_link", "viewer", stdout=out)
    path = re.search(r"https://conductor\.example\.org(\S+)", out.getvalue())
    assert path and Client().get(path[1]).status_code == 200
    assert OneTimeLink.objects.get().made_by is None


def test_an_invitation_is_no_password_link(lab: Lab, people: People) -> None:
    made = make_password_link(user=people.viewer, author=by(people.administrator))
    assert Client().get(reverse("join", args=[made.secret])).status_code == 410
