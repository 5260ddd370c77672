"""Signing in through an OpenID Connect provider: the way there and back, the roles, and every lie refused."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured
from django.test import Client
from django.urls import reverse

from conductor_site.accounts import oidc
from conductor_site.accounts.closing import close_account
from conductor_site.accounts.tests.provider import CLIENT_ID, CLIENT_SECRET, Provider, new_key, running
from conductor_site.env import Organisation, env_organisation
from conductor_site.models import ExternalIdentity
from record.access import Role
from record.models import Decision, Event, Lab, Membership
from record.services import Author
from record.tests.factories import PASSWORD, People, make_person

pytestmark = pytest.mark.django_db
BACKENDS = ["django.contrib.auth.backends.ModelBackend", "conductor_site.accounts.oidc.OrganisationBackend"]
ROLES = {
    "cryo": (("tomography", "operator"),),
    "cn=judges,ou=cryo": (("tomography", "reviewer"), ("other", "viewer")),
    "heads": (("tomography", "administrator"),),
    "lost": (("no-such-lab", "viewer"),),
}


@pytest.fixture(scope="module")
def _running() -> Iterator[Provider]:
    with running() as provider:
        yield provider


@pytest.fixture
def provider(_running: Provider, settings: Any) -> Provider:
    """The provider, set up here, with one person in it."""
    _running.person = {
        "sub": "8c1f",
        "preferred_username": "mara",
        "given_name": "Mara",
        "family_name": "Lind",
        "email": "mara@example.org",
        "groups": ["cryo", "staff"],
    }
    _running.lies, _running.told, _running.signs_with, _running.fails = {}, {}, None, False
    settings.AUTHENTICATION_BACKENDS = BACKENDS
    settings.OIDC = Organisation(
        issuer=_running.issuer,
        client_id=CLIENT_ID,
        client_secret=CLIENT_SECRET,
        name="Institute",
        scopes="openid profile email",
        algorithm="RS256",
        groups_claim="groups",
        roles=ROLES,
    )
    oidc._discovered.clear()
    return _running


def begin(client: Client, provider: Provider, onward: str = "") -> str:
    """To the provider; the address to which it sends the browser back."""
    answer = client.get(reverse("oidc-begin"), {"next": onward} if onward else {})
    assert answer.status_code == 302
    assert answer.headers["Location"].startswith(f"{provider.issuer}/auth?")
    return provider.authorize(answer.headers["Location"])


def sign_in(client: Client, provider: Provider) -> Any:
    return client.get(begin(client, provider), follow=True)


def roles(user: User) -> set[tuple[str, str]]:
    return set(Membership.objects.filter(user=user).values_list("lab__slug", "role"))


def test_the_sign_in_page_offers_it(provider: Provider, client: Client) -> None:
    page = client.get(reverse("login")).content.decode()
    assert "Sign in with Institute" in page and reverse("oidc-begin") in page


def test_somebody_new_gets_an_account_with_the_roles_of_their_groups(
    provider: Provider, people: People, client: Client
) -> None:
    page = sign_in(client, provider)
    assert page.status_code == 200 and "Mara Lind" in page.content.decode()
    mara = User.objects.get(username="mara")
    assert (mara.email, mara.has_usable_password()) == ("mara@example.org", False)
    assert roles(mara) == {("tomography", "operator")}
    assert ExternalIdentity.objects.get().subject == "8c1f"
    decision = Decision.objects.get(lab__slug="tomography")
    assert (decision.actor_kind, decision.actor_name) == ("policy", "groups of the organisation")
    assert "mara signed in" in decision.statement.reason


def test_who_comes_again_is_the_same_account_and_follows_the_groups(
    provider: Provider, people: People, client: Client
) -> None:
    sign_in(client, provider)
    provider.person |= {"preferred_username": "mara.lind", "email": "new@example.org", "groups": ["cn=judges,ou=cryo"]}
    sign_in(Client(), provider)
    mara = User.objects.get(username="mara")
    assert mara.email == "new@example.org"
    assert roles(mara) == {("tomography", "reviewer"), ("other", "viewer")}
    assert not User.objects.filter(username="mara.lind").exists()


def test_roles_that_no_group_gives_stay(provider: Provider, lab: Lab, people: People, client: Client) -> None:
    sign_in(client, provider)
    mara = User.objects.get(username="mara")
    Membership.objects.create(lab=lab, user=mara, role=Role.VIEWER)
    provider.person["groups"] = []
    assert sign_in(Client(), provider).status_code == 200
    assert roles(mara) == {("tomography", "viewer")}


def test_the_last_administrator_stays_one_and_it_is_told(provider: Provider, people: People, client: Client) -> None:
    provider.person["groups"] = ["heads"]
    sign_in(client, provider)
    Membership.objects.filter(user=people.administrator).delete()
    provider.person["groups"] = ["cryo"]
    sign_in(Client(), provider)
    assert roles(User.objects.get(username="mara")) == {("tomography", "administrator"), ("tomography", "operator")}
    assert "the last administrator" in Event.objects.get(kind="member.kept").message


def test_one_group_as_plain_text_counts_too(provider: Provider, people: People, client: Client) -> None:
    provider.person["groups"] = "cryo"
    sign_in(client, provider)
    assert roles(User.objects.get(username="mara")) == {("tomography", "operator")}


def test_groups_may_come_with_the_userinfo(provider: Provider, people: People, client: Client) -> None:
    del provider.person["groups"]
    provider.told = {"groups": ["cryo"]}
    sign_in(client, provider)
    assert roles(User.objects.get(username="mara")) == {("tomography", "operator")}


def test_somebody_in_no_group_gets_no_account(provider: Provider, people: People, client: Client) -> None:
    provider.person["groups"] = ["staff"]
    page = sign_in(client, provider)
    assert "in no group that has a role here" in page.content.decode()
    assert not ExternalIdentity.objects.exists() and not User.objects.filter(username="mara").exists()


def test_an_account_of_the_same_name_or_address_is_not_taken_over(
    provider: Provider, lab: Lab, people: People, client: Client
) -> None:
    theirs = make_person("mara", lab, Role.ADMINISTRATOR)
    User.objects.filter(pk=theirs.pk).update(email="mara@example.org")
    sign_in(client, provider)
    assert ExternalIdentity.objects.get().user.username == "mara-2"
    assert roles(theirs) == {("tomography", "administrator")}


def test_nobody_gets_the_name_of_an_agent(provider: Provider, people: People, client: Client) -> None:
    provider.person["preferred_username"] = "agent-reader"
    sign_in(client, provider)
    assert ExternalIdentity.objects.get().user.username == "x-agent-reader"


def test_a_closed_account_is_out_at_once_and_comes_back_by_no_way(
    provider: Provider, people: People, client: Client
) -> None:
    sign_in(client, provider)
    assert client.get("/").status_code == 200
    close_account(user=User.objects.get(username="mara"), author=Author.command_line(), reason="left")
    assert client.get("/").status_code == 302
    assert "Your account here is closed" in sign_in(Client(), provider).content.decode()


def test_deactivating_the_row_alone_ends_the_session_too(provider: Provider, people: People, client: Client) -> None:
    sign_in(client, provider)
    User.objects.filter(username="mara").update(is_active=False)
    assert client.get("/").status_code == 302


@pytest.mark.parametrize(
    ("lies", "words"),
    [
        ({"iss": "https://elsewhere.example"}, "another issuer"),
        ({"aud": "another"}, "another application"),
        ({"aud": ["another", CLIENT_ID], "azp": "another"}, "another application"),
        ({"exp": int(time.time()) - 60}, "expired"),
        ({"exp": None}, "never expires"),
        ({"sub": ""}, "names nobody"),
        ({"sub": "somebody else"}, "about somebody else"),
        ({"nonce": "an old one"}, "Nonce"),
    ],
)
def test_a_token_that_lies_signs_nobody_in(
    lies: dict[str, Any], words: str, provider: Provider, people: People, client: Client
) -> None:
    provider.lies = lies
    page = sign_in(client, provider).content.decode()
    assert words in page and "nobody was signed in" in page
    assert client.get("/").status_code == 302
    assert not ExternalIdentity.objects.exists()


def test_a_token_that_somebody_else_signed_signs_nobody_in(provider: Provider, people: People, client: Client) -> None:
    provider.signs_with = new_key()
    assert "nobody was signed in" in sign_in(client, provider).content.decode()


def test_a_code_counts_once_and_in_its_own_browser(provider: Provider, people: People, client: Client) -> None:
    back = begin(client, provider)
    assert "did not sign you in" in Client().get(back, follow=True).content.decode()
    client.get(back)
    assert client.get("/").status_code == 200
    client.post(reverse("logout"))
    assert client.get(back).status_code in (302, 400)
    assert client.get("/").status_code == 302


def test_a_refusal_at_the_provider_signs_nobody_out(provider: Provider, people: People, client: Client) -> None:
    client.force_login(people.viewer, backend=BACKENDS[0])
    page = client.get(reverse("oidc-callback"), {"error": "access_denied"}, follow=True)
    assert "did not sign you in" in page.content.decode()
    assert client.get("/").status_code == 200


def test_a_provider_that_is_down_is_told_and_passwords_go_on(
    provider: Provider, people: People, client: Client
) -> None:
    back = begin(client, provider)
    provider.fails = True
    assert "does not answer" in client.get(back, follow=True).content.decode()
    oidc._discovered.clear()
    answer = client.get(reverse("oidc-begin"))
    assert answer.status_code == 502 and "does not answer" in answer.content.decode()
    body = {"username": "viewer", "password": PASSWORD}
    assert client.post(reverse("login"), body).status_code == 302


def test_a_password_never_reaches_the_provider(provider: Provider, people: People, client: Client) -> None:
    provider.asked.clear()
    body = {"username": "viewer", "password": "wrong"}
    client.post(f"{reverse('login')}?code=x&state=y", body)
    assert provider.asked == []


def test_it_leads_back_to_where_one_wanted_to_go_and_nowhere_else(
    provider: Provider, people: People, client: Client
) -> None:
    assert client.get(begin(client, provider, "/runs/")).headers["Location"] == "/runs/"
    other = Client()
    assert other.get(begin(other, provider, "https://evil.example/")).headers["Location"] == "/"


def test_a_provider_of_another_name_is_refused(provider: Provider, client: Client, settings: Any) -> None:
    issuer = provider.issuer.replace("127.0.0.1", "localhost")
    settings.OIDC = Organisation(issuer, CLIENT_ID, CLIENT_SECRET, "Institute", "openid", "RS256", "groups", {})
    answer = client.get(reverse("oidc-begin"))
    assert answer.status_code == 502 and "must be spelt exactly so" in answer.content.decode()


def configured(monkeypatch: pytest.MonkeyPatch, **values: str) -> Organisation | None:
    for name, value in values.items():
        monkeypatch.setenv(f"CONDUCTOR_OIDC_{name}", value)
    return env_organisation(list(Role))


def test_it_is_set_up_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert configured(monkeypatch) is None
    found = configured(
        monkeypatch,
        ISSUER="https://id.example.org/realms/lab",
        CLIENT_ID="conductor",
        CLIENT_SECRET="secret",
        ROLES="cn=judges,ou=cryo=tomography:reviewer; cryo=tomography:operator;cryo=other:viewer",
    )
    assert found is not None
    assert found.roles == {
        "cn=judges,ou=cryo": (("tomography", "reviewer"),),
        "cryo": (("tomography", "operator"), ("other", "viewer")),
    }


def test_the_roles_of_groups_may_stand_in_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "roles").write_text("cryo=tomography:operator\ncn=judges,ou=cryo=tomography:reviewer\n")
    (tmp_path / "secret").write_text("secret\n")
    found = configured(
        monkeypatch,
        ISSUER="https://id.example.org",
        CLIENT_ID="conductor",
        CLIENT_SECRET_FILE=str(tmp_path / "secret"),
        ROLES_FILE=str(tmp_path / "roles"),
    )
    assert found is not None and found.client_secret == "secret"
    assert set(found.roles) == {"cryo", "cn=judges,ou=cryo"}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"ISSUER": "http://id.example.org"}, "must begin with https"),
        ({"ISSUER": "http://127.0.0.1.example.org"}, "must begin with https"),
        ({"ISSUER": "https://id.example.org", "CLIENT_ID": ""}, "CLIENT_ID"),
        ({"ISSUER": "https://id.example.org", "CLIENT_SECRET": ""}, "CLIENT_SECRET"),
        ({"ISSUER": "https://id.example.org", "ROLES": "cryo=tomography"}, "is not group=lab:role"),
        ({"ISSUER": "https://id.example.org", "ROLES": "cryo=tomography:boss"}, "is not group=lab:role"),
        ({"ISSUER": "https://id.example.org", "ALGORITHM": "none"}, "ALGORITHM"),
    ],
)
def test_what_cannot_be_meant_is_refused(values: dict[str, str], words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ImproperlyConfigured, match=words):
        configured(monkeypatch, **({"CLIENT_ID": "conductor", "CLIENT_SECRET": "secret"} | values))
