"""How long a session lasts, and what closes the door on guessing."""

from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.contrib.sessions.models import Session
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from conductor_site.accounts.tests.test_passwords import signed_in
from conductor_site.models import SignInFailure
from conductor_site.signin import FAILURES_A_NAME, FAILURES_AN_ACCOUNT, WINDOW_S
from record.tests.factories import PASSWORD, People

pytestmark = pytest.mark.django_db
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@pytest.fixture
def clock(people: People, settings: Any) -> Any:
    settings.SESSION_IDLE_S, settings.SESSION_LONGEST_S = 4 * 3600, 3 * 24 * 3600
    with time_machine.travel(timezone.now(), tick=False) as traveller:
        yield traveller


def test_an_idle_session_ends(clock: Any) -> None:
    client = signed_in("viewer")
    client.get("/")
    clock.shift(3 * HOUR)
    assert client.get("/").status_code == 200
    clock.shift(3 * HOUR)
    assert client.get("/").status_code == 200, "it was used in between"
    clock.shift(4 * HOUR)
    page = client.get("/", follow=True)
    assert page.redirect_chain and "so you were signed out" in page.content.decode()


def test_an_open_tab_keeps_no_session_alive(clock: Any) -> None:
    client = signed_in("viewer")
    client.get("/")
    for _ in range(3):
        clock.shift(HOUR)
        assert client.get("/?seen=x", headers={"HX-Request": "true"}).status_code == 200
    clock.shift(HOUR)
    answer = client.get("/?seen=x", headers={"HX-Request": "true"}, follow=True)
    assert answer.headers["HX-Redirect"] == reverse("login")


def test_a_session_in_constant_use_ends_too(clock: Any) -> None:
    client = signed_in("viewer")
    for _ in range(23):
        assert client.get("/").status_code == 200
        clock.shift(3 * HOUR)
    assert client.get("/").status_code == 200
    clock.shift(3 * HOUR)
    assert "for safety, sign in once more" in client.get("/", follow=True).content.decode()


def test_a_session_is_written_seldom(clock: Any) -> None:
    client = signed_in("viewer")
    client.get("/")
    before = Session.objects.get().session_data
    client.get("/")
    assert Session.objects.get().session_data == before


def guess(name: str, address: str) -> None:
    SignInFailure.objects.create(username=name, address=address)


def test_guessing_one_account_from_many_addresses_ends(people: People, clock: Any) -> None:
    for number in range(FAILURES_AN_ACCOUNT):
        guess("viewer", f"10.0.{number // 250}.{number % 250}")
    body = {"username": "viewer", "password": PASSWORD}
    assert "Too many sign-ins" in Client().post(reverse("login"), body).content.decode()
    assert Client().post(reverse("login"), body | {"username": "reviewer"}).status_code == 302
    clock.shift(timedelta(seconds=WINDOW_S + 1))
    assert Client().post(reverse("login"), body).status_code == 302


def test_the_owner_comes_in_by_a_known_browser_meanwhile(people: People, clock: Any) -> None:
    known = signed_in("viewer")
    known.post(reverse("logout"))
    for number in range(FAILURES_AN_ACCOUNT):
        guess("viewer", f"10.0.0.{number}")
    body = {"username": "viewer", "password": PASSWORD}
    assert known.post(reverse("login"), body).status_code == 302


def test_what_is_refused_unread_makes_the_wait_no_longer(people: People, clock: Any) -> None:
    body = {"username": "viewer", "password": "wrong"}
    client = Client()
    for _ in range(FAILURES_A_NAME):
        client.post(reverse("login"), body)
    for _ in range(5):
        clock.shift(timedelta(seconds=60))
        assert "Too many" in client.post(reverse("login"), body).content.decode()
    clock.shift(timedelta(seconds=WINDOW_S - 5 * 60 + 1))
    assert client.post(reverse("login"), body | {"password": PASSWORD}).status_code == 302
