"""The members' page, agents and their tokens, one's own tokens."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from conductor_site.accounts.agents import make_agent_account, make_agent_token
from conductor_site.accounts.closing import close_account, open_account
from conductor_site.accounts.tests.test_invitations import by
from conductor_site.accounts.tests.test_passwords import signed_in
from conductor_site.api.tokens import make_token
from conductor_site.models import ApiToken, OneTimeLink
from record.access import Role
from record.errors import BadInput, NotAllowed, StaleState
from record.members import LastOfRole
from record.models import Decision, Door, Event, Lab, Membership
from record.services import Author
from record.tests.factories import People, make_agent_user, make_person

pytestmark = pytest.mark.django_db


def with_token(token: str) -> Client:
    return Client(headers={"Authorization": f"Token {token}"})


def token_on(answer: Any) -> str:
    found = re.search(r"readonly[^>]*>([0-9a-f]{64})</textarea>", answer.content.decode())
    assert found, answer.content.decode()
    return found[1]


def test_members_are_shown_to_all_and_changed_by_administrators(lab: Lab, people: People, client: Client) -> None:
    client.force_login(people.viewer)
    page = client.get(reverse("labs:members", args=[lab.pk])).content.decode()
    assert "administrator" in page and "Invite somebody" not in page and "Change" not in page
    client.force_login(people.administrator)
    page = client.get(reverse("labs:members", args=[lab.pk])).content.decode()
    assert "Invite somebody" in page and "New agent" in page


def test_roles_are_changed_on_the_members_page(lab: Lab, people: People, client: Client) -> None:
    client.force_login(people.administrator)
    url = reverse("labs:member", args=[lab.pk, people.viewer.pk])
    assert 'value="viewer" id="id_roles_0" checked' in client.get(url).content.decode().replace('" class="', '" ')
    answer = client.post(url, {"roles": ["operator", "reviewer"], "reason": "she has learnt it"}, follow=True)
    assert "viewer is operator and reviewer" in answer.content.decode()
    assert Decision.objects.get().statement.reason == "she has learnt it"


def test_the_last_reviewer_goes_only_when_that_is_confirmed(lab: Lab, people: People, client: Client) -> None:
    client.force_login(people.administrator)
    url = reverse("labs:member", args=[lab.pk, people.reviewer.pk])
    assert "is to have no" not in client.get(url).content.decode()
    refused = client.post(url, {"reason": "moved away"})
    assert refused.status_code == 409
    page = refused.content.decode()
    assert "the last reviewer" in page and "Yes, the lab is to have no reviewer" in page and "moved away" in page
    assert client.post(url, {"reason": "moved away", "confirmed": "on"}).status_code == 302
    assert Decision.objects.get().override
    assert not Membership.objects.filter(user=people.reviewer).exists()


def test_the_last_administrator_does_not_lock_themselves_out(lab: Lab, people: People, client: Client) -> None:
    client.force_login(people.administrator)
    answer = client.post(reverse("labs:member", args=[lab.pk, people.administrator.pk]), {"roles": ["viewer"]})
    assert answer.status_code == 409
    assert Membership.objects.get(user=people.administrator).role == "administrator"


def test_somebody_with_an_account_is_added(lab: Lab, people: People, client: Client) -> None:
    client.force_login(people.administrator)
    url = reverse("labs:add", args=[lab.pk])
    client.post(url, {"username": "outsider", "role": "viewer"})
    client.post(url, {"username": "viewer", "role": "operator"})
    assert Membership.objects.get(lab=lab, user=people.outsider).role == "viewer"
    assert set(Membership.objects.filter(user=people.viewer).values_list("role", flat=True)) == {"viewer", "operator"}
    answer = client.post(url, {"username": "nobody", "role": "viewer"})
    assert answer.status_code == 400 and "Invite them" in answer.content.decode()


def test_a_member_of_another_lab_is_not_found_in_this_one(lab: Lab, people: People, client: Client) -> None:
    client.force_login(people.administrator)
    assert client.get(reverse("labs:member", args=[lab.pk, people.outsider.pk])).status_code == 404


def test_an_agent_gets_an_account_and_a_token_and_is_shown_as_one(lab: Lab, people: People, client: Client) -> None:
    client.force_login(people.administrator)
    client.post(reverse("labs:new-agent", args=[lab.pk]), {"name": "Slice reader", "roles": ["viewer", "reviewer"]})
    agent = User.objects.get(username="agent-slice-reader")
    assert agent.get_full_name() == "Slice reader (agent)" and not agent.has_usable_password()
    assert agent.agent_account.made_by == people.administrator
    url = reverse("labs:agent-token", args=[lab.pk, agent.pk])
    shown = client.post(url, {"name": "node 7", "scopes": ["read"], "life_d": "2"})
    assert "no-store" in shown.headers["Cache-Control"]
    token = token_on(shown)
    assert with_token(token).get("/api/v1/labs/").json()["results"][0]["slug"] == "tomography"
    page = client.get(reverse("labs:member", args=[lab.pk, agent.pk])).content.decode()
    assert "Slice reader (agent)" in page and "node 7" in page and token not in page
    assert "agent-slice-reader" in Event.objects.get(kind="account.token").message
    assert {each.verdict for each in Decision.objects.all()} == {"make_agent"}

    row = ApiToken.objects.get()
    client.post(reverse("labs:revoke-agent-token", args=[lab.pk, agent.pk, row.token_key]))
    assert with_token(token).get("/api/v1/labs/").status_code == 401


@pytest.mark.parametrize(
    ("name", "roles", "words"),
    [("", ["viewer"], "name"), ("a/b", ["viewer"], "letters"), ("x" * 61, ["viewer"], "60"), ("ok", [], "roles"),
     ("ok", ["administrator"], "roles")],
)  # fmt: skip
def test_an_agent_that_cannot_be(name: str, roles: list[str], words: str, lab: Lab, people: People) -> None:
    with pytest.raises(BadInput, match=words):
        make_agent_account(lab=lab, name=name, roles=roles, author=by(people.administrator))


def test_an_agents_name_is_taken_once(lab: Lab, people: People) -> None:
    make_agent_account(lab=lab, name="Reader", roles=["viewer"], author=by(people.administrator))
    with pytest.raises(BadInput, match="already"):
        make_agent_account(lab=lab, name="reader", roles=["viewer"], author=by(people.administrator))


@pytest.mark.parametrize("who", ["viewer", "operator", "reviewer", "outsider"])
def test_others_make_no_agents_and_no_tokens_for_them(who: str, lab: Lab, people: People) -> None:
    with pytest.raises(NotAllowed):
        make_agent_account(lab=lab, name="mine", roles=["viewer"], author=by(people[who]))
    agent = make_agent_user("reader", lab, Role.VIEWER)
    with pytest.raises(NotAllowed):
        make_agent_token(agent=agent, name="x", scopes=["read"], life_h=1, author=by(people[who]))


def test_nobody_makes_tokens_for_another_person(lab: Lab, people: People, client: Client) -> None:
    with pytest.raises(BadInput, match="themselves"):
        make_agent_token(agent=people.viewer, name="x", scopes=["read"], life_h=1, author=by(people.administrator))
    client.force_login(people.administrator)
    url = reverse("labs:agent-token", args=[lab.pk, people.viewer.pk])
    assert client.post(url, {"name": "x", "scopes": ["read"], "life_d": "1"}).status_code == 400
    assert not ApiToken.objects.exists()


def test_an_agent_cannot_sign_in_to_pages(lab: Lab) -> None:
    agent = make_agent_user("reader", lab, Role.VIEWER)
    agent.set_unusable_password()
    agent.save()
    answer = Client().post(reverse("login"), {"username": "agent-reader", "password": agent.password})
    assert "is wrong" in answer.content.decode()


def test_a_closed_agent_is_out_at_once_and_needs_a_new_token_when_opened(
    lab: Lab, people: People, client: Client
) -> None:
    agent = make_agent_user("reader", lab, Role.VIEWER)
    _, token = make_token(user=agent, name="node")
    client.force_login(people.administrator)
    url = reverse("labs:close-agent", args=[lab.pk, agent.pk])
    assert client.post(url, {"reason": ""}).status_code == 400
    assert client.post(url, {"reason": "it runs wild"}).status_code == 302
    assert with_token(token).get("/api/v1/runs/").status_code == 401
    assert Decision.objects.get().verdict == "close_account"
    assert client.post(url, {"reason": "mended"}).status_code == 302
    agent.refresh_from_db()
    assert agent.is_active and with_token(token).get("/api/v1/runs/").status_code == 401


def test_a_closed_person_loses_sessions_tokens_and_links_at_once(lab: Lab, people: People) -> None:
    second = make_person("second", lab, Role.ADMINISTRATOR)
    browser, admin = signed_in("second"), signed_in("administrator")
    _, token = make_token(user=second, name="script")
    browser.post(reverse("labs:invite", args=[lab.pk]), {"role": "viewer", "life_d": "7"})
    admin.post(reverse("labs:password-link", args=[lab.pk, second.pk]))
    keeper = User.objects.create_superuser("keeper")

    with pytest.raises(NotAllowed, match="keeps this installation"):
        close_account(user=second, author=by(people.administrator), reason="left")
    close_account(user=second, author=by(keeper, Door.ADMIN), reason="left")

    assert browser.get("/").status_code == 302
    assert with_token(token).get("/api/v1/runs/").status_code == 401
    assert {link.state.value for link in OneTimeLink.objects.all()} == {"revoked"}
    assert Decision.objects.get(verdict="close_account").statement.reason == "left"
    with pytest.raises(StaleState):
        close_account(user=second, author=by(keeper, Door.ADMIN), reason="left")

    open_account(user=second, author=by(keeper, Door.ADMIN), reason="came back")
    assert browser.get("/").status_code == 302, "the old session stays ended"
    assert with_token(token).get("/api/v1/runs/").status_code == 401
    assert Membership.objects.get(user=second).role == "administrator"


def test_closing_the_last_of_a_role_is_confirmed(lab: Lab, people: People) -> None:
    with pytest.raises(LastOfRole, match="Tomography would have no reviewer"):
        close_account(user=people.reviewer, author=Author.command_line(), reason="left")
    people.reviewer.refresh_from_db()
    assert people.reviewer.is_active
    close_account(user=people.reviewer, author=Author.command_line(), reason="left", confirmed=True)
    assert Decision.objects.get().override


def test_nobody_closes_their_own_account(lab: Lab) -> None:
    keeper = User.objects.create_superuser("keeper")
    with pytest.raises(NotAllowed, match="your own"):
        close_account(user=keeper, author=by(keeper, Door.ADMIN), reason="x")


def test_my_tokens_are_made_shown_once_and_revoked(people: People, client: Client) -> None:
    client.force_login(people.viewer)
    body = {"name": "notebook", "scopes": ["read", "decide"], "life_d": "3"}
    token = token_on(client.post(reverse("account:new-token"), body))
    row = ApiToken.objects.get()
    assert (row.user, row.scopes, row.last_used_at) == (people.viewer, ["read", "decide"], None)
    page = client.get(reverse("account:me")).content.decode()
    assert "notebook" in page and "read, decide" in page and "never" in page and token not in page
    assert with_token(token).get("/api/v1/runs/").status_code == 200
    row.refresh_from_db()
    assert row.last_used_at is not None
    client.post(reverse("account:revoke-token", args=[row.token_key]))
    assert with_token(token).get("/api/v1/runs/").status_code == 401


def test_a_token_without_scope_or_name_is_not_made(people: People, client: Client) -> None:
    client.force_login(people.viewer)
    answer = client.post(reverse("account:new-token"), {"name": "", "life_d": "9999"})
    assert answer.status_code == 400
    assert not ApiToken.objects.exists()


def test_anothers_token_is_not_revoked(people: People, client: Client) -> None:
    row, _ = make_token(user=people.reviewer, name="theirs")
    client.force_login(people.viewer)
    assert client.post(reverse("account:revoke-token", args=[row.token_key])).status_code == 404
    assert ApiToken.objects.exists()


def test_a_token_opens_no_page(people: People) -> None:
    _, token = make_token(user=people.administrator, name="script")
    robot = with_token(token)
    for name in ("account:me", "home"):
        assert robot.get(reverse(name)).status_code == 302
