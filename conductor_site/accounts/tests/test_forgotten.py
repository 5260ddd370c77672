"""A forgotten password: a link by mail, where mail can be sent, and never a word about who has an account."""

import re
from datetime import UTC, datetime
from pathlib import Path
from smtplib import SMTPException
from typing import Any

import pytest
import time_machine
from django.contrib.auth.models import User
from django.core import mail
from django.test import Client
from django.urls import reverse
from django_q.models import OrmQ

from conductor_site.accounts.forgotten import ASKED_A_MINUTE, MAILS_AN_HOUR, mail_password_link, mail_password_links
from conductor_site.accounts.passwords import make_password_link
from conductor_site.accounts.tests.test_invitations import by
from conductor_site.models import OneTimeLink
from record.models import Event
from record.tests.factories import PASSWORD, People

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _mail(people: People, settings: Any, tmp_path: Path) -> None:
    settings.API_LIMITS = tmp_path
    settings.EMAIL_HOST, settings.BASE_URL = "mail.example.org", "https://conductor.example.org"
    User.objects.filter(username="viewer").update(email="viewer@example.org")
    OrmQ.objects.all().delete()


def ask(client: Client, name: str) -> str:
    return client.post(reverse("forgotten"), {"name": name}).content.decode().partition("<main")[2]


def carry_out() -> int:
    """Do what is queued; how many mails went out."""
    return sum(mail_password_links(*row.task["args"]) for row in OrmQ.objects.all())


@pytest.mark.parametrize(
    ("name", "mails"),
    [("viewer", 1), ("VIEWER@example.org", 1), ("nobody", 0), ("reviewer", 0), ("a\x00b", 0)],
)
def test_the_answer_is_the_same_whoever_is_asked_for(name: str, mails: int, client: Client) -> None:
    assert "is on its way" in ask(client, name) or "\x00" in name
    assert OrmQ.objects.count() == (0 if "\x00" in name else 1)  # the same work, whoever it is
    assert carry_out() == mails == len(mail.outbox)


def test_nobody_fills_the_queue(client: Client) -> None:
    with time_machine.travel(datetime(2026, 11, 30, 12, 0, 1, tzinfo=UTC), tick=False):
        for name in ["viewer", "nobody"] * ASKED_A_MINUTE:
            assert "is on its way" in ask(client, name)
        assert OrmQ.objects.count() == ASKED_A_MINUTE
        client.post(reverse("forgotten"), {"name": "viewer"}, REMOTE_ADDR="192.0.2.7")
        assert OrmQ.objects.count() == ASKED_A_MINUTE + 1  # others still can


def test_the_mailed_link_sets_a_password_once(people: People) -> None:
    assert mail_password_link(people.viewer.pk)
    [sent] = mail.outbox
    assert sent.to == ["viewer@example.org"]
    path = re.search(r"https://conductor\.example\.org(/new-password/\S+)", sent.body)
    assert path
    body = {"new_password1": "quite another password", "new_password2": "quite another password"}
    assert Client().post(path[1], body).status_code == 302
    assert Client().post(path[1], body).status_code == 410
    assert "forgotten password made a link" in Event.objects.filter(kind="account.password").last().message  # type: ignore[union-attr]


def test_nobody_floods_a_mailbox_or_kills_an_administrators_link(people: People) -> None:
    theirs = make_password_link(user=people.viewer, author=by(people.administrator))
    assert [mail_password_link(people.viewer.pk) for _ in range(MAILS_AN_HOUR + 1)] == [True] * MAILS_AN_HOUR + [False]
    assert Client().get(reverse("new-password", args=[theirs.secret])).status_code == 200


def test_a_used_link_kills_the_others(people: People) -> None:
    first, second = (
        make_password_link(user=people.viewer, author=by(people.administrator), replacing=False) for _ in "ab"
    )
    body = {"new_password1": "quite another password", "new_password2": "quite another password"}
    Client().post(reverse("new-password", args=[first.secret]), body)
    assert Client().get(reverse("new-password", args=[second.secret])).status_code == 410


@pytest.mark.parametrize("change", [{"is_active": False}, {"email": ""}, {"password": "!unusable"}])
def test_who_cannot_set_one_gets_none(change: dict[str, Any], people: People, client: Client) -> None:
    User.objects.filter(pk=people.viewer.pk).update(**change)
    ask(client, "viewer")
    assert carry_out() == 0
    assert not mail_password_link(people.viewer.pk) and not mail.outbox


def test_a_mail_that_does_not_leave_leaves_no_link(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise SMTPException("450 try later")

    monkeypatch.setattr("conductor_site.accounts.forgotten.send_mail", refuse)
    assert not mail_password_link(people.viewer.pk)
    assert OneTimeLink.objects.get().state == "revoked"


def test_without_a_mail_server_an_administrator_is_named(client: Client, settings: Any) -> None:
    settings.EMAIL_HOST = ""
    assert "Ask an administrator" in ask(client, "viewer")
    assert not OrmQ.objects.exists()
    assert client.post(reverse("login"), {"username": "viewer", "password": PASSWORD}).status_code == 302
