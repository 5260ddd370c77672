"""Invitations: made by administrators, shown once, good once, taken back; and the first administrator's."""

import io
import re
import threading
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from conductor_site.accounts import invitations
from conductor_site.accounts.invitations import accept_with_account, accept_with_new_account, invite, revoke_invitation
from conductor_site.accounts.links import DeadLink
from conductor_site.models import OneTimeLink
from record.access import Role
from record.errors import BadInput, NotAllowed
from record.members import set_roles
from record.models import Decision, Door, Event, Lab, Membership
from record.services import Author
from record.tests.factories import PASSWORD, People, make_agent_user, make_lab, make_person

pytestmark = pytest.mark.django_db
NEW = {"username": "mara", "new_password1": PASSWORD, "new_password2": PASSWORD, "first_name": "Mara"}


def by(user: User, door: str = Door.WEB) -> Author:
    return Author.person(user, door)


def link_on(answer: Any) -> str:
    """The link that a page shows once."""
    found = re.search(r"http://testserver(/[\w/-]+)</textarea>", answer.content.decode())
    assert found, answer.content.decode()
    return found[1]


def invited(client: Client, people: People, lab: Lab, role: str = "reviewer") -> str:
    client.force_login(people.administrator)
    body = {"role": role, "note": "the new postdoc", "life_d": "7"}
    answer = client.post(reverse("labs:invite", args=[lab.pk]), body)
    assert "no-store" in answer.headers["Cache-Control"]
    return link_on(answer)


def test_an_invitation_makes_an_account_with_its_role(lab: Lab, people: People, client: Client) -> None:
    link = invited(client, people, lab)
    guest = Client()
    assert "Join Tomography" in guest.get(link).content.decode()
    assert guest.get(link).status_code == 200, "looking uses nothing up"
    answer = guest.post(link, NEW)
    assert answer.headers["Location"] == reverse("home")
    assert "Welcome: you are reviewer of Tomography" in guest.get("/").content.decode()

    mara = User.objects.get(username="mara")
    assert Membership.objects.get(user=mara).role == "reviewer"
    joined = Decision.objects.get(verdict="join")
    assert (joined.actor, joined.door, joined.statement.reason) == (mara, "web", "invited by administrator")
    asked = Decision.objects.get(verdict="invite")
    assert asked.actor == people.administrator and asked.statement.answers["role"] == "reviewer"
    assert Event.objects.filter(kind="member.change", decision=joined).exists()
    assert guest.get(reverse("labs:members", args=[lab.pk])).status_code == 200


def test_the_secret_is_kept_as_a_hash_and_shown_once(lab: Lab, people: People, client: Client) -> None:
    secret = invited(client, people, lab).split("/")[2]
    row = OneTimeLink.objects.get()
    assert secret not in str(vars(row)) and len(secret) >= 43
    page = client.get(reverse("labs:members", args=[lab.pk])).content.decode()
    assert "the new postdoc" in page and secret not in page
    assert secret not in "".join(Decision.objects.values_list("canonical", flat=True))


def test_it_works_once(lab: Lab, people: People, client: Client) -> None:
    link = invited(client, people, lab)
    Client().post(link, NEW)
    answer = Client().post(link, NEW | {"username": "another"})
    assert answer.status_code == 410
    assert "has been used" in answer.content.decode()
    assert not User.objects.filter(username="another").exists()


def test_it_expires_and_can_be_taken_back(lab: Lab, people: People, client: Client) -> None:
    link = invited(client, people, lab)
    with time_machine.travel(timezone.now() + timedelta(days=7, minutes=1)):
        assert "has expired" in Client().get(link).content.decode()
    row = OneTimeLink.objects.get()
    assert client.post(reverse("labs:revoke-invitation", args=[lab.pk, row.pk])).status_code == 302
    assert "has been taken back" in Client().post(link, NEW).content.decode()
    assert Decision.objects.filter(verdict="revoke_invitation").exists()
    assert client.post(reverse("labs:revoke-invitation", args=[lab.pk, row.pk])).status_code == 410


def test_somebody_with_an_account_joins_with_it(lab: Lab, people: People, client: Client) -> None:
    link = invited(client, people, lab, "operator")
    guest = Client()
    guest.force_login(people.outsider)
    assert "Join as outsider" in guest.get(link).content.decode()
    assert guest.post(link).status_code == 302
    assert Membership.objects.filter(lab=lab, user=people.outsider, role="operator").exists()


def test_somebody_who_signs_in_first_comes_back_to_it(lab: Lab, people: People, client: Client) -> None:
    link = invited(client, people, lab)
    guest = Client()
    assert f"{reverse('login')}?next={link}" in guest.get(link).content.decode()
    body = {"username": "outsider", "password": PASSWORD, "next": link}
    assert guest.post(reverse("login"), body).headers["Location"] == link


def test_a_role_that_one_has_uses_nothing_up(lab: Lab, people: People, client: Client) -> None:
    link = invited(client, people, lab, "viewer")
    guest = Client()
    guest.force_login(people.viewer)
    answer = guest.post(link)
    assert "already; the invitation is still good" in answer.content.decode()
    assert Client().post(link, NEW).status_code == 302


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"username": "viewer"}, "is taken"),
        ({"username": "VIEWER"}, "is taken"),
        ({"username": "agent-mara"}, "are for agents"),
        ({"username": "a b"}, "valid username"),
        ({"new_password1": "short", "new_password2": "short"}, "too short"),
        ({"username": "mara.lind", "new_password1": "mara.lind1", "new_password2": "mara.lind1"}, "too similar"),
        ({"new_password2": "something else"}, "not the same"),
    ],
)
def test_what_will_not_do_is_told_and_uses_nothing_up(
    changes: dict[str, str], words: str, lab: Lab, people: People, client: Client
) -> None:
    link = invited(client, people, lab)
    answer = Client().post(link, NEW | changes)
    assert answer.status_code == 400
    assert words in answer.content.decode()
    assert PASSWORD not in answer.content.decode()
    assert Client().post(link, NEW).status_code == 302


@pytest.mark.parametrize("name", ["d\u0435mo", "\u0430gent-x", "r\u0435view\u0435r", "mar\u03b1"])
def test_no_user_name_looks_like_anothers(name: str, lab: Lab, people: People) -> None:
    """A Cyrillic e among Latin letters is seen by nobody."""
    made = invite(lab=lab, role="viewer", author=by(people.administrator))
    with pytest.raises(BadInput, match="several scripts"):
        accept_with_new_account(secret=made.secret, username=name, password=PASSWORD)
    for fine in ("\u0434\u0438\u043c\u0430", "j\u00fcrgen", "\u7530\u4e2dtanaka"):
        made = invite(lab=lab, role="viewer", author=by(people.administrator))
        assert accept_with_new_account(secret=made.secret, username=fine, password=PASSWORD).pk


@pytest.mark.parametrize(
    ("first", "last", "shown"),
    [
        ("Mara\u202e", "(agent)", "Mara"), ("Mara", "\uff08\uff21gent\uff09", "Mara"),
        ("Ma\r\nra", "((agent)agent)", "Ma ra"),
        ("Ma\u200bra", "x\x1b[31m", "Mara x\u241b[31m"),
    ],
)  # fmt: skip
def test_no_person_is_shown_as_an_agent_nor_turned(first: str, last: str, shown: str, lab: Lab, people: People) -> None:
    made = invite(lab=lab, role="viewer", author=by(people.administrator))
    user = accept_with_new_account(
        secret=made.secret, username="mara", password=PASSWORD, first_name=first, last_name=last
    )
    assert by(user).name == shown and Decision.objects.filter(actor=user).get().actor_name == shown


def test_an_invitation_ends_with_the_right_to_invite(lab: Lab, people: People) -> None:
    second = make_person("second", lab, Role.ADMINISTRATOR)
    made = invite(lab=lab, role="administrator", author=by(second))
    set_roles(lab=lab, user=second, roles=[], author=by(people.administrator))
    with pytest.raises(DeadLink, match="no longer"):
        accept_with_account(secret=made.secret, user=second)
    assert not Membership.objects.filter(user=second).exists()


def test_the_right_to_invite_may_end_while_an_account_is_made(
    lab: Lab, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The password is hashed in between, which takes its time."""
    second = make_person("second", lab, Role.ADMINISTRATOR)
    made = invite(lab=lab, role="administrator", author=by(second))

    def removed(*_: object) -> None:
        set_roles(lab=lab, user=second, roles=[], author=by(people.administrator))

    monkeypatch.setattr(invitations, "checked_password", removed)
    with pytest.raises(DeadLink, match="no longer"):
        accept_with_new_account(secret=made.secret, username="mara", password=PASSWORD)
    assert not User.objects.filter(username="mara").exists()


@pytest.mark.parametrize("who", ["viewer", "operator", "reviewer", "outsider"])
def test_others_invite_nobody(who: str, lab: Lab, people: People) -> None:
    with pytest.raises(NotAllowed):
        invite(lab=lab, role="viewer", author=by(people[who]))
    made = invite(lab=lab, role="viewer", author=by(people.administrator))
    with pytest.raises(NotAllowed):
        revoke_invitation(link=made.row, author=by(people[who]))


def test_an_agent_accepts_nothing(lab: Lab, people: People) -> None:
    made = invite(lab=lab, role="administrator", author=by(people.administrator))
    with pytest.raises(NotAllowed):
        accept_with_account(secret=made.secret, user=make_agent_user("reader", lab))


@pytest.mark.django_db(transaction=True)
def test_of_many_at_once_one_gets_in(lab: Lab, people: People) -> None:
    made = invite(lab=lab, role="viewer", author=by(people.administrator))
    start = threading.Barrier(6)
    outcomes: list[object] = []

    def accept(number: int) -> None:
        try:
            start.wait()
            outcomes.append(accept_with_new_account(secret=made.secret, username=f"guest{number}", password=PASSWORD))
        except DeadLink as refusal:
            outcomes.append(refusal)
        finally:
            connection.close()

    threads = [threading.Thread(target=accept, args=[number]) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 6
    winners = [each for each in outcomes if isinstance(each, User)]
    assert [user.username for user in User.objects.filter(username__startswith="guest")] == [winners[0].username]
    assert Membership.objects.filter(user__username__startswith="guest").count() == 1


def first_link(lab: str = "Tomography", **options: str) -> str:
    out = io.StringIO()
    call_command("first_administrator", lab=lab, stdout=out, **options)
    return out.getvalue()


def test_the_first_administrator_comes_by_a_link_and_keeps_the_installation(client: Client) -> None:
    told = first_link("Cryo lab", address="https://conductor.example.org")
    path = re.search(r"https://conductor\.example\.org(/join/\S+)", told)
    assert path and "works once" in told
    assert "keep this installation" in client.get(path[1]).content.decode()
    assert client.post(path[1], NEW).status_code == 302
    mara = User.objects.get()
    assert mara.is_superuser and mara.is_staff
    assert Membership.objects.get(user=mara).role == "administrator"
    assert Lab.objects.get().slug == "cryo-lab"
    assert client.get(reverse("admin:index")).status_code == 200
    with pytest.raises(CommandError, match="password_link mara"):
        first_link()


def test_a_second_first_link_replaces_the_first(client: Client) -> None:
    first, second = (re.findall(r"/join/\S+", first_link())[0] for _ in range(2))
    assert client.post(first, NEW).status_code == 410
    assert client.post(second, NEW).status_code == 302


@pytest.mark.parametrize("address", ["conductor.example.org", "ftp://x", "https://*.example.org"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(CommandError, match="no address of a site"):
        first_link(address=address)


def test_a_lab_needs_a_name() -> None:
    with pytest.raises(CommandError, match="letters"):
        first_link("  ")


@pytest.mark.parametrize("name", ["a_b", "Ä_B", "a_-b"])
def test_no_two_labs_share_the_names_of_their_secrets(name: str, client: Client) -> None:
    make_lab("a-b")
    assert first_link("A b"), "that is the lab itself"
    with pytest.raises(CommandError, match="differs too little from a-b"):
        call_command("first_administrator", lab=name)
    client.force_login(User.objects.create_superuser("keeper"))
    body = {"name": name, "slug": "a_b", "memberships-TOTAL_FORMS": 0, "memberships-INITIAL_FORMS": 0}
    page = client.post(reverse("admin:record_lab_add"), body)
    assert "differs too little from a-b" in page.text
    assert list(Lab.objects.values_list("slug", flat=True)) == ["a-b"]


def test_bad_wishes_are_refused(lab: Lab, people: People) -> None:
    for wish in ({"role": "boss"}, {"role": "viewer", "life_h": 0}, {"role": "viewer", "life_h": 24 * 365}):
        with pytest.raises(BadInput):
            invite(lab=lab, author=by(people.administrator), **wish)  # type: ignore[arg-type]
