"""Lists: pages, filters, order, constant numbers of queries; refusals and faults all told in one shape."""

import json
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from django.core.management import call_command
from django.db import OperationalError, connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from conductor_site.tests.world import PROBLEM, World, make_evidence, make_gate, make_phase, make_world
from record.models import Lab
from record.tests.factories import People, decide
from runs.models import TiltSeries


@pytest.fixture
def world(lab: Lab, people: People, tmp_path: Path, client: Client) -> World:
    client.force_login(people.viewer)
    return make_world(lab, people.operator, tmp_path)


@pytest.mark.parametrize(
    ("query", "count"),
    [("state=running", 1), ("state=done", 0), ("lab=tomography", 3), ("lab=other", 0), ("archived=true", 0),
     ("archived=false", 3), ("pipeline=tomo", 3), ("target=local-first", 3), ("name=first", 1)],
)  # fmt: skip
def test_runs_are_filtered(query: str, count: int, world: World, client: Client) -> None:
    assert len(client.get(f"/api/v1/runs/?{query}").json()["results"]) == count


@pytest.mark.parametrize("query", ["stat=running", "state=walking", "archived=maybe&x=1", "lab__name=x"])
def test_a_filter_that_means_nothing_is_refused(query: str, world: World, client: Client) -> None:
    answer = client.get(f"/api/v1/runs/?{query}")
    assert answer.status_code == 400
    assert answer.json()["extra"]["fields"]


NOWHERE = ["runs/99999999999999999999999", "runs/0", "gates/12345", "decisions/00000000-0000-0000-0000-000000000000"]


@pytest.mark.parametrize("path", NOWHERE)
def test_what_is_not_there_is_404_in_words(path: str, world: World, client: Client) -> None:
    answer = client.get(f"/api/v1/{path}/")
    assert answer.status_code == 404
    assert answer.json()["code"] == "not_found"


HOSTILE = ["jobs/?run=nonsense", "events/?since=1e999", "events/?since=nan", "runs/?page=-1", "jobs/?token=%00"]


FAR = ["decisions/?after=0001-01-01T00:00:00%2B23:00", "decisions/?before=9999-12-31T23:59:59-23:00"]


@pytest.mark.parametrize("path", [*HOSTILE, *FAR, "decisions/?after=yesterday"])
def test_hostile_queries_are_refused(path: str, world: World, client: Client) -> None:
    answer = client.get(f"/api/v1/{path}")
    assert answer.status_code in (400, 404)
    assert set(answer.json()) == PROBLEM


def add_more(world: World, folder: Path, word: str, count: int) -> None:
    """Several of everything that lists and details nest."""
    lab, person = world.lab, world.run.created_by
    for number in range(count):
        phase = make_phase(world.run, key=f"{word}{number}", position=number + 1, species=world.species)
        phase.needs.add(world.phase)
        decision = decide(lab, person, supersedes=world.decision, reason="better")
        TiltSeries.objects.create(run=world.run, name=f"TS_{word}{number}", excluded_by=decision)
        make_gate(lab, phase, person)
        make_evidence(world.gate, name=f"{word}{number}.png")
        make_world(lab, person, folder, name=f"{word}{number}")


DETAILS = {"run": "run", "gate": "gate", "phase": "phase", "job": "job", "tilt-series": "series", "target": "target"}


def test_the_number_of_queries_does_not_grow(
    world: World, client: Client, tmp_path: Path, django_assert_max_num_queries: Any
) -> None:
    lists = ["lab", "decision", "event", "target", "job", "gate", "evidence", "pipeline", "run", "phase", "tilt-series"]
    urls = [reverse(f"api:{name}-list") for name in lists]
    urls += [reverse(f"api:{name}-detail", kwargs={"pk": getattr(world, thing).pk}) for name, thing in DETAILS.items()]
    add_more(world, tmp_path, "few", 1)
    client.get(urls[0])  # the session's first page notes when it began
    before = {url: count_queries(client, url) for url in urls}
    add_more(world, tmp_path, "many", 4)
    after = {url: count_queries(client, url) for url in urls}
    assert after == before
    assert max(after.values()) <= 14


LOCKS = 13  # where a database locks rows: four statements a gate, of three at most
COMMANDS = [
    ("runs/{run.pk}/pause", {}, 23),
    ("gates/{gate.pk}/decide", {"verdict": "approve", "answers": {"shift": 4.5}, "digest": "d" * 64}, 32),
    ("gates/{gate.pk}/consequence", {"answers": {"shift": 4.5}}, 9),
    ("phases/{phase.pk}/skip", {"reason": "done by hand"}, 58),
    ("tilt-series/{series.pk}/exclude", {"reason": "ice"}, 32),
]


@pytest.mark.parametrize(("path", "body", "most"), COMMANDS)
def test_a_command_asks_little_of_the_database(
    path: str, body: dict[str, Any], most: int, world: World, people: People, client: Client
) -> None:
    client.force_login(people.administrator)
    url = f"/api/v1/{path.format(**vars(world))}/"
    with CaptureQueriesContext(connection) as plain, transaction.atomic():
        assert client.post(url, body, content_type="application/json").status_code == 200
        transaction.set_rollback(True)
    with CaptureQueriesContext(connection) as keyed:
        answer = client.post(url, body, content_type="application/json", headers={"Idempotency-Key": "k"})
    assert answer.status_code == 200
    with CaptureQueriesContext(connection) as repeated:
        client.post(url, body, content_type="application/json", headers={"Idempotency-Key": "k"})
    locks = LOCKS if connection.features.has_select_for_update else 0
    assert len(plain) <= most + locks
    assert len(keyed) - len(plain) <= 8  # look for the key, take it, two savepoints, keep the answer
    assert len(repeated) <= 3  # the session, its user, the answer


def count_queries(client: Client, url: str) -> int:
    with CaptureQueriesContext(
        connection,
    ) as queries:
        assert client.get(url).status_code == 200
    return len(queries)


def test_an_address_without_its_slash_is_told(world: World, client: Client) -> None:
    answer = client.get("/api/v1/runs")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert "end with '/'" in answer.json()["detail"]


def test_nobody_on_the_way_keeps_an_answer(world: World, client: Client) -> None:
    told = client.get("/api/v1/runs/").headers
    assert told["Cache-Control"] == "private, no-cache"
    assert {"Authorization", "Cookie"} <= set(told["Vary"].split(", "))
    assert client.get("/api/v1/runs/0/").headers["Cache-Control"] == "no-store"


def test_a_busy_database_is_503_in_words(world: World, client: Client) -> None:
    with patch("record.rest.visible", side_effect=OperationalError("database is locked")):
        answer = client.get("/api/v1/runs/")
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
    assert answer.headers["Retry-After"]


def test_a_fault_of_ours_is_told_as_json(world: World, client: Client) -> None:
    client.raise_request_exception = False
    with patch("record.rest.visible", side_effect=ZeroDivisionError("a secret")):
        answer = client.get("/api/v1/runs/")
    assert (answer.status_code, answer.json()["code"]) == (500, "error")
    assert b"secret" not in answer.content


def test_the_schema_builds_without_a_warning(tmp_path: Path) -> None:
    call_command("spectacular", fail_on_warn=True, validate=True, file=str(tmp_path / "schema.yml"))


@pytest.mark.parametrize(
    ("kind", "body", "status"),
    [
        ("text/plain", "{}", 415),
        ("application/x-www-form-urlencoded", "username=a&password=b", 415),
        ("multipart/form-data; boundary=x", "--x--", 415),
        ("", "{}", 415),
        ("application/json", "{", 400),
        ("application/json", '{"username": NaN}', 400),
        ("application/json", '{"username": "a", "password": "b", "life_h": 1e999}', 400),
        ("application/json", '{"username": "a", "username": "b", "password": "c"}', 400),
        ("application/json", '{"username": "a", "password": "b", "name": "\\u001b[31m"}', 400),
        ("application/json", '{"life_h": ' + "[" * 500 + "]" * 500 + "}", 400),
        ("application/json", '{"username": "\\ud800", "password": "x"}', 400),
        ("application/json", '{"username": "a\\u0000b", "password": "x"}', 400),
        ("application/json", "[" * 100_000, 400),
        ("application/json", '{"a":' * 50_000 + "1" + "}" * 50_000, 400),
        ("application/json", b"\xff\xfe\x00", 400),
        ("application/json", '{"username": "' + "x" * 5_000_000 + '"}', 413),
        ("application/json", "1" * 10_000, 400),
    ],
)
def test_bodies_that_cannot_be_used(kind: str, body: str | bytes, status: int, client: Client, db: None) -> None:
    answer = client.generic("POST", "/api/v1/token/", body, content_type=kind)
    assert answer.status_code == status
    assert set(json.loads(answer.content)) == PROBLEM


@pytest.mark.parametrize("field", ["pipeline", "target"])
def test_a_number_beyond_all_numbers_is_refused(field: str, world: World, people: People, client: Client) -> None:
    client.force_login(people.operator)
    body = f'{{"name": "a", "work_dir": "/x", "{field}": 1e999}}'
    answer = client.generic("POST", "/api/v1/runs/", body, content_type="application/json")
    assert (answer.status_code, json.loads(answer.content)["code"]) == (400, "bad_input")


def test_a_backslash_before_u0000_is_text_like_any_other(people: People, client: Client) -> None:
    body = {"username": "viewer", "password": r"C:\u0000"}
    answer = client.post("/api/v1/token/", body, content_type="application/json")
    assert answer.json()["code"] == "wrong_password"


def test_a_body_of_nothing_is_told_in_sentences(people: People, client: Client) -> None:
    answer = client.generic("POST", "/api/v1/token/", "null", content_type="application/json")
    assert answer.json()["detail"] == "No data provided. Nothing was changed."
