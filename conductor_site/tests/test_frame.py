"""The site's frame: sign-in, the policy on every response, health, and failures told in words."""

import logging
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from conductor_site.logs import OneLine
from conductor_site.models import SignInFailure
from conductor_site.signin import FAILURES_A_NAME, KNOWN_COOKIE
from jobs.models import ConductLease, Pulse
from record.tests.factories import PASSWORD, People


def test_anonymous_people_are_sent_to_sign_in(client: Client, db: None) -> None:
    response = client.get(reverse("home"))
    assert response.status_code == 302
    assert response.headers["Location"].startswith(reverse("login"))


def test_sign_in_leads_home_and_sign_out_leads_back(client: Client, people: People) -> None:
    response = client.post(reverse("login"), {"username": "reviewer", "password": PASSWORD})
    assert response.headers["Location"] == reverse("home")
    assert "Waiting for you" in client.get(reverse("home")).content.decode()
    assert client.post(reverse("logout")).headers["Location"] == reverse("login")
    assert client.get(reverse("home")).status_code == 302


def test_an_installation_without_accounts_says_how_to_begin(client: Client, db: None) -> None:
    assert "first_administrator" in client.get(reverse("login")).content.decode()
    User.objects.create_user("somebody")
    assert "first_administrator" not in client.get(reverse("login")).content.decode()


def test_wrong_password_is_told_at_the_form(client: Client, people: People) -> None:
    response = client.post(reverse("login"), {"username": "reviewer", "password": "no"})
    assert "The user name or the password is wrong." in response.content.decode()


def test_the_door_closes_after_many_wrong_passwords(client: Client, people: People) -> None:
    for _ in range(10):
        client.post(reverse("login"), {"username": "reviewer", "password": "no"})
    response = client.post(reverse("login"), {"username": "reviewer", "password": PASSWORD})
    assert "Too many sign-ins have failed" in response.content.decode()


def test_one_person_behind_an_address_cannot_shut_the_others_out(people: People) -> None:
    known, stranger, wrong = Client(), Client(), {"username": "reviewer", "password": "wrong"}
    right = {"username": "reviewer", "password": PASSWORD}
    known.post(reverse("login"), right)
    known.post(reverse("logout"))
    for _ in range(FAILURES_A_NAME):
        stranger.post(reverse("login"), wrong)
    assert "Too many sign-ins" in stranger.post(reverse("login"), right).content.decode()
    assert known.post(reverse("login"), right).status_code == 302


def test_a_known_browser_is_known_for_one_person_and_has_its_own_limit(people: People) -> None:
    known = Client()
    known.post(reverse("login"), {"username": "reviewer", "password": PASSWORD})
    known.post(reverse("logout"))
    for _ in range(FAILURES_A_NAME):
        known.post(reverse("login"), {"username": "reviewer", "password": "wrong"})
    assert "Too many" in known.post(reverse("login"), {"username": "reviewer", "password": PASSWORD}).content.decode()
    for _ in range(FAILURES_A_NAME):
        known.post(reverse("login"), {"username": "operator", "password": "wrong"})
    assert SignInFailure.objects.filter(username="operator", browser="").count() == FAILURES_A_NAME
    assert "Too many" in known.post(reverse("login"), {"username": "operator", "password": PASSWORD}).content.decode()


def test_a_forged_mark_counts_as_none(people: People) -> None:
    client = Client()
    for mark in ("x", "", "WyJyZXZpZXdlciIsICJ4Il0:1:x"):
        client.cookies[KNOWN_COOKIE] = mark
        client.post(reverse("login"), {"username": "reviewer", "password": "wrong"})
    assert set(SignInFailure.objects.values_list("browser", flat=True)) == {""}


def test_a_poll_after_the_session_ended_moves_the_whole_page(client: Client, db: None) -> None:
    response = client.get(reverse("home"), headers={"HX-Request": "true"}, follow=True)
    assert response.headers["HX-Redirect"] == reverse("login")


@pytest.mark.parametrize("name", ["home", "runs:list", "record:decisions", "jobs:targets"])
def test_every_page_forbids_what_is_inline_or_foreign(client: Client, people: People, name: str) -> None:
    client.force_login(people.viewer)
    response = client.get(reverse(name))
    policy = response.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy
    assert "style=" not in response.content.decode()
    assert "<script>" not in response.content.decode()
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["Cache-Control"] in ("private, no-cache", "no-store")


def test_a_poll_gets_nothing_while_nothing_changed(client: Client, people: People) -> None:
    client.force_login(people.viewer)
    page = client.get(reverse("home"))
    seen = page.content.decode().split("seen=")[1].split('"')[0]
    polled = client.get(f"{reverse('home')}?seen={seen}", headers={"HX-Request": "true"})
    assert polled.status_code == 204
    assert "HX-Request" in polled.headers["Vary"]
    changed = client.get(f"{reverse('home')}?seen=other", headers={"HX-Request": "true"})
    assert changed.status_code == 200
    assert "<html" not in changed.content.decode()


def test_health_needs_no_sign_in_and_tells_what_is_silent(client: Client, db: None) -> None:
    response = client.get("/healthz")
    assert response.status_code == 503
    assert response.json() == {
        "ok": False,
        "database": True,
        "conduct": False,
        "conduct_age_s": None,
        "workers": False,
        "pulse_age_s": None,
        "targets": True,
        "targets_stuck": 0,
        "targets_by_state": {},
        "draining": False,
    }


def test_health_is_good_while_both_beat(client: Client, db: None) -> None:
    now = timezone.now()
    ConductLease.objects.create(name="tick", holder="h", expires_at=now + timedelta(seconds=30), beat_at=now)
    Pulse.objects.create(cluster="conductor", asked_at=now, beat_at=now)
    response = client.get("/healthz")
    assert response.status_code == 200
    assert response.json()["ok"] is True


class Body:
    """A request's body of nothing but zeros that counts how much of it was read."""

    def __init__(self) -> None:
        self.read_bytes = 0

    def read(self, size: int = -1) -> bytes:
        self.read_bytes += size
        return b"0" * size

    def readline(self, size: int = -1) -> bytes:
        return self.read(size)


def upload(client: Client, path: str, body: Body) -> Any:
    kind = {"CONTENT_TYPE": "multipart/form-data; boundary=b", "CONTENT_LENGTH": str(2 * 1024**3)}
    return client.generic("POST", path, b"", **{"wsgi.input": body}, **kind)


def test_an_upload_of_2_gb_is_refused_in_words_and_not_read_whole(client: Client, people: People) -> None:
    client.force_login(people.operator)
    body = Body()
    response = upload(client, reverse("home"), body)
    assert response.status_code == 413
    assert "larger than 64 MiB and was not read" in response.content.decode()
    assert body.read_bytes <= 8 * 1024 * 1024


def test_an_upload_to_the_api_is_refused_as_json(client: Client, db: None) -> None:
    response = upload(client, "/api/v1/token/", Body())
    assert response.status_code == 413
    assert response.json()["code"] == "too_large"


@pytest.mark.parametrize("path", ["/", "/sign-in/", "/api/v1/token/"])
def test_a_body_of_unknown_length_is_refused_and_not_read_as_empty(path: str, client: Client, people: People) -> None:
    client.force_login(people.operator)
    body = Body()
    response = client.generic("POST", path, b"", **{"wsgi.input": body, "HTTP_TRANSFER_ENCODING": "chunked"})
    assert response.status_code == 411
    assert "came in chunks" in response.content.decode()
    assert body.read_bytes <= 8 * 1024 * 1024


@pytest.mark.parametrize(
    ("failure", "words"),
    [
        (OperationalError("database is locked"), "busy for too long"),
        (OperationalError("database or disk is full"), "disk that holds the database is full"),
        (OperationalError("no such column: runs_run.preset"), "manage.py migrate"),
        (OSError(28, "No space left on device"), "disk that holds the database is full"),
    ],
)
def test_a_database_that_refuses_is_told_in_words(
    client: Client, people: People, monkeypatch: pytest.MonkeyPatch, failure: Exception, words: str
) -> None:
    def refuse(user: object) -> None:
        raise failure

    client.force_login(people.viewer)
    monkeypatch.setattr("conductor_site.views.look_around", refuse)
    response = client.get(reverse("home"))
    assert response.status_code == 503
    assert response.headers["Retry-After"] == "5"
    assert words in response.content.decode()


def test_a_database_that_fails_before_the_view_is_told_in_words(
    client: Client, people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object) -> None:
        raise OperationalError("database is locked")

    client.force_login(people.viewer)
    client.raise_request_exception = False
    monkeypatch.setattr("django.contrib.auth.middleware.get_user", refuse)
    response = client.get(reverse("home"))
    assert response.status_code == 503
    assert "busy for too long" in response.content.decode()


def test_an_address_with_a_line_break_forges_no_line_of_the_log() -> None:
    line = OneLine("{levelname}: {message}", style="{")
    hostile = logging.LogRecord("x", logging.ERROR, "", 0, "%s failed", ("/runs/\nCRITICAL: all lost\x1b[31m",), None)
    assert line.format(hostile) == r"ERROR: /runs/\x0aCRITICAL: all lost\x1b[31m failed"


def test_a_form_with_an_old_token_keeps_what_was_typed(people: People) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(people.reviewer)
    response = client.post(reverse("home"), {"reason": "the <b>needle</b> is bent"})
    assert response.status_code == 403
    assert "the &lt;b&gt;needle&lt;/b&gt; is bent" in response.content.decode()


@pytest.mark.parametrize("origin", ["https://elsewhere.example", "null"])
def test_what_another_site_sends_is_not_offered_to_be_sent_again(origin: str, people: People) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(people.operator)
    response = client.post("/runs/1/cancel/", {"reason": "not mine"}, headers={"Origin": origin})
    assert response.status_code == 403
    assert "not part of testserver" in response.content.decode()
    assert "not mine" not in response.content.decode()
    assert "<form" not in response.content.decode().partition("<main")[2]


def test_a_password_is_never_shown_again(people: People) -> None:
    client = Client(enforce_csrf_checks=True)
    response = client.post(reverse("login"), {"username": "reviewer", "password": "hunter2 hunter2"})
    assert response.status_code == 403
    assert "hunter2" not in response.content.decode()


def test_an_address_that_is_not_there_is_told_in_the_frame(client: Client, people: People) -> None:
    client.force_login(people.viewer)
    response = client.get("/nowhere/")
    assert response.status_code == 404
    assert "There is nothing at this address" in response.content.decode()
