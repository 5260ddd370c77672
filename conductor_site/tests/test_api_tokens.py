"""Tokens: got for a password, shown once, scoped, expiring, revoked; the door closes on guessing."""

import json
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from conductor_site.api.tokens import TOKENS_A_PERSON, make_token
from conductor_site.models import ApiToken, SignInFailure
from conductor_site.signin import FAILURES_A_NAME, WINDOW_S
from conductor_site.tests.world import PROBLEM
from record.tests.factories import PASSWORD, People

pytestmark = pytest.mark.django_db
URL = "/api/v1/token/"


def post(client: Client, body: Any, **headers: str) -> HttpResponse:
    return client.post(URL, json.dumps(body), content_type="application/json", headers=headers)  # type: ignore[return-value]


def get_token(client: Client, **more: Any) -> dict[str, Any]:
    answer = post(client, {"username": "viewer", "password": PASSWORD, **more})
    assert answer.status_code == 201
    return json.loads(answer.content)


def with_token(client: Client, token: str, method: str = "GET", path: str = "/api/v1/runs/") -> HttpResponse:
    return client.generic(method, path, headers={"Authorization": f"Token {token}"})  # type: ignore[return-value]


def test_a_token_opens_the_api(people: People, client: Client) -> None:
    made = get_token(client, name="my script", life_h=2)
    assert with_token(client, made["token"]).status_code == 200
    row = ApiToken.objects.get()
    assert (row.name, row.user, row.token_key) == ("my script", people.viewer, made["token_key"])
    assert made["token"] not in row.digest
    assert timedelta(hours=1.9) < row.expiry - timezone.now() < timedelta(hours=2.1)


def test_a_wrong_password_and_an_unknown_name_sound_alike(people: People, client: Client) -> None:
    answers = [post(client, {"username": name, "password": "wrong"}) for name in ("viewer", "nobody")]
    assert [answer.status_code for answer in answers] == [403, 403]
    assert answers[0].content == answers[1].content
    assert json.loads(answers[0].content)["code"] == "wrong_password"


def test_guessing_closes_the_door_for_a_while(people: People, client: Client) -> None:
    with time_machine.travel(timezone.now(), tick=False) as clock:
        for _ in range(FAILURES_A_NAME):
            assert post(client, {"username": "Viewer", "password": "wrong"}).status_code == 403
        answer = post(client, {"username": "viewer", "password": PASSWORD})
        assert answer.status_code == 429
        assert json.loads(answer.content)["extra"]["wait_s"] <= WINDOW_S + 1
        assert int(answer.headers["Retry-After"]) <= WINDOW_S + 1
        assert post(client, {"username": "reviewer", "password": PASSWORD}).status_code == 201
        clock.shift(timedelta(seconds=WINDOW_S + 1))
        get_token(client)
        post(client, {"username": "viewer", "password": "wrong"})
        assert SignInFailure.objects.count() == 1


def test_behind_a_proxy_the_address_is_what_the_proxy_says(people: People, client: Client, settings: Any) -> None:
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    post(client, {"username": "viewer", "password": "wrong"}, **{"X-Forwarded-For": "10.9.9.9, 192.0.2.7"})
    settings.SECURE_PROXY_SSL_HEADER = None
    post(client, {"username": "viewer", "password": "wrong"}, **{"X-Forwarded-For": "10.9.9.9"})
    assert list(SignInFailure.objects.order_by("id").values_list("address", flat=True)) == ["192.0.2.7", "127.0.0.1"]


def test_a_token_is_given_up(people: People, client: Client) -> None:
    first, second = get_token(client)["token"], get_token(client)
    assert with_token(client, first, "DELETE", f"{URL}{second['token_key']}/").status_code == 204
    assert with_token(client, second["token"]).status_code == 401
    assert with_token(client, first, "DELETE", URL).status_code == 204
    assert with_token(client, first).status_code == 401


def test_another_persons_token_does_not_exist(people: People, client: Client) -> None:
    row, _ = make_token(user=people.reviewer, name="theirs")
    mine = get_token(client)["token"]
    assert with_token(client, mine, "DELETE", f"{URL}{row.token_key}/").status_code == 404


def test_a_token_ends_with_its_time_and_with_its_owner(people: People, client: Client) -> None:
    token = get_token(client, life_h=1)["token"]
    people.viewer.is_active = False
    people.viewer.save()
    assert with_token(client, token).status_code == 401
    people.viewer.is_active = True
    people.viewer.save()
    with time_machine.travel(timezone.now() + timedelta(hours=2)):
        assert with_token(client, token).status_code == 401


def test_a_persons_oldest_tokens_make_room(people: People, client: Client) -> None:
    for number in range(TOKENS_A_PERSON + 2):
        make_token(user=people.viewer, name=str(number))
    assert sorted(map(int, ApiToken.objects.values_list("name", flat=True)))[0] == 2
    assert ApiToken.objects.count() == TOKENS_A_PERSON


@pytest.mark.parametrize(
    "header", ["Token", "Token a b", "Token \xff\xfe", "Token " + "x" * 5000, "Bearer x", "Token \x00"]
)
def test_what_is_no_token_is_refused(header: str, people: People, client: Client) -> None:
    answer = client.get("/api/v1/runs/", HTTP_AUTHORIZATION=header)
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == "Token"
    assert set(answer.json()) == PROBLEM


@pytest.mark.parametrize(
    "body",
    [{}, [], "x", 3, None, {"username": "viewer"}, {"username": "viewer", "password": PASSWORD, "role": "x"},
     {"username": "viewer", "password": PASSWORD, "life_h": 0}, {"username": "v\x00", "password": "x"},
     {"username": ["viewer"], "password": {"a": 1}}],
)  # fmt: skip
def test_bad_input_is_refused_in_words(body: Any, people: People, client: Client) -> None:
    answer = post(client, body)
    assert answer.status_code == 400
    assert json.loads(answer.content)["code"] == "bad_input"
    assert not ApiToken.objects.exists()


def test_tokens_are_listed_without_their_secrets(people: People, client: Client) -> None:
    made = get_token(client)
    rows = json.loads(with_token(client, made["token"], "GET", reverse("api:token")).content)
    assert [row["token_key"] for row in rows] == [made["token_key"]]
    assert "token" not in rows[0]
