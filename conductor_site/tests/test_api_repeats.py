"""Commands sent again under an Idempotency-Key: the first answer once more, and nothing done twice."""

import json
from datetime import timedelta
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pytest
import time_machine
from django.db import OperationalError, connection
from django.test import Client
from django.utils import timezone

from conductor_site.tasks import sweep
from conductor_site.tests.world import World, make_world
from gates.models import Gate
from record.models import Decision, Event, KeptAnswer, Lab
from record.repeats import ABANDONED_AFTER_S
from record.tests.factories import People
from runs.models import Run


@pytest.fixture
def world(lab: Lab, people: People, tmp_path: Path, client: Client) -> World:
    client.force_login(people.administrator)
    return make_world(lab, people.operator, tmp_path)


def send(client: Client, path: str, body: Any, key: str = "k1") -> Any:
    raw = json.dumps(body)
    return client.generic(
        "POST", f"/api/v1/{path}/", raw, content_type="application/json", headers={"Idempotency-Key": key}
    )


ANSWER = {"verdict": "approve", "answers": {"shift": 4.5}, "digest": "d" * 64}


def test_the_first_answer_again_after_the_gate_closed(world: World, client: Client) -> None:
    path = f"gates/{world.gate.pk}/decide"
    first = send(client, path, ANSWER)
    again = send(client, path, dict(reversed(ANSWER.items())))
    assert first.status_code == 200
    assert (again.status_code, again.content, again["Content-Type"]) == (200, first.content, first["Content-Type"])
    assert again.headers["Idempotency-Replayed"] == "true"
    assert "Idempotency-Replayed" not in first.headers
    assert Decision.objects.filter(gate=world.gate).count() == 1
    assert send(client, path, ANSWER, key="k2").status_code == 409


def test_a_refusal_is_given_again_too(world: World, client: Client) -> None:
    path = f"gates/{world.gate.pk}/decide"
    first = send(client, path, ANSWER | {"digest": "e" * 64})
    Gate.objects.filter(pk=world.gate.pk).update(digest="e" * 64)
    again = send(client, path, ANSWER | {"digest": "e" * 64})
    assert (again.status_code, again.content) == (409, first.content)
    assert again["Content-Type"] == "application/problem+json"
    assert not Decision.objects.filter(gate=world.gate).exists()


@pytest.mark.parametrize("path", ["runs/{}/pause", "runs/{}/resume"])
def test_a_key_with_something_else_is_refused(path: str, world: World, client: Client) -> None:
    send(client, f"runs/{world.run.pk}/pause", {"reason": "a"})
    other = send(client, path.format(world.run.pk), {"reason": "b"})
    assert (other.status_code, other.json()["code"]) == (422, "key_reused")
    assert Run.objects.get(pk=world.run.pk).state == "paused"


def test_keys_are_a_persons_own(world: World, people: People, client: Client) -> None:
    assert send(client, f"runs/{world.run.pk}/pause", {}).status_code == 200
    client.force_login(people.operator)
    assert send(client, f"runs/{world.run.pk}/resume", {}).status_code == 200
    client.force_login(people.viewer)
    assert send(client, f"runs/{world.run.pk}/pause", {}).status_code == 403


def test_without_a_key_nothing_is_kept(world: World, client: Client) -> None:
    client.post(f"/api/v1/runs/{world.run.pk}/pause/", {}, content_type="application/json")
    assert not KeptAnswer.objects.exists()


@pytest.mark.parametrize("key", ["", " ", '""', "x" * 201, "a\tb", "schlüssel"])
def test_what_is_no_key(key: str, world: World, client: Client) -> None:
    answer = send(client, f"runs/{world.run.pk}/pause", {}, key=key)
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_input")
    assert Run.objects.get(pk=world.run.pk).state == "running"


def test_a_quoted_key_is_the_same_key(world: World, client: Client) -> None:
    send(client, f"runs/{world.run.pk}/pause", {}, key='"k1"')
    assert send(client, f"runs/{world.run.pk}/pause", {}).headers["Idempotency-Replayed"]


def test_a_run_is_begun_once(world: World, client: Client) -> None:
    body = {"pipeline": world.pipeline.pk, "target": world.target.pk, "name": "twice", "species": ["alpha"],
            "work_dir": f"{world.target.roots[0]}/twice"}  # fmt: skip
    first, again = send(client, "runs", body), send(client, "runs", body)
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.headers["Location"] == first.headers["Location"]
    assert Run.objects.filter(name="twice").count() == 1


def test_answers_are_forgotten_after_some_days(world: World, client: Client, settings: Any) -> None:
    settings.REPEATS_KEPT_DAYS = 1  # less than a session lasts
    send(client, f"runs/{world.run.pk}/pause", {})
    with time_machine.travel(timezone.now() + timedelta(days=settings.REPEATS_KEPT_DAYS, seconds=1)):
        assert send(client, f"runs/{world.run.pk}/pause", {}).status_code == 409
        assert KeptAnswer.objects.count() == 1
    with time_machine.travel(timezone.now() + timedelta(days=2 * settings.REPEATS_KEPT_DAYS, seconds=5)):
        sweep()
    assert not KeptAnswer.objects.exists()


def test_a_command_that_still_runs_is_not_begun_again(world: World, people: People, client: Client) -> None:
    path = f"targets/{world.target.pk}/check"
    send(client, path, {})
    KeptAnswer.objects.update(status=None)
    with time_machine.travel(timezone.now() + timedelta(seconds=ABANDONED_AFTER_S - 5)):
        answer = send(client, path, {})
    assert (answer.status_code, answer.json()["code"], answer.headers["Retry-After"]) == (409, "still_running", "1")
    with time_machine.travel(timezone.now() + timedelta(seconds=ABANDONED_AFTER_S + 5)):
        answer = send(client, path, {})
    assert (answer.status_code, "Idempotency-Replayed" in answer.headers) == (200, False)
    assert Event.objects.filter(kind="target.check").count() in (0, 2)


@pytest.mark.parametrize("verb", ["runs/{run}/pause", "targets/{target}/check"])
def test_a_fault_is_not_kept(verb: str, world: World, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    path = verb.format(run=world.run.pk, target=world.target.pk)

    def busy(*args: Any, **kwargs: Any) -> None:
        raise OperationalError("database is locked")

    with monkeypatch.context() as broken:
        broken.setattr("record.rest.visible", busy)
        assert send(client, path, {}).status_code == 503
    assert not KeptAnswer.objects.exists()
    assert send(client, path, {}).status_code == 200


def test_a_crash_before_the_answer_is_kept_undoes_the_command(
    world: World, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*args: Any, **kwargs: Any) -> None:
        raise SystemExit

    with monkeypatch.context() as broken:
        broken.setattr("record.repeats._keep", crash)
        with pytest.raises(SystemExit):
            send(client, f"runs/{world.run.pk}/pause", {})
    assert Run.objects.get(pk=world.run.pk).state == "running"
    assert send(client, f"runs/{world.run.pk}/pause", {}).status_code == 200


@pytest.mark.django_db(transaction=True)
def test_of_many_at_once_one_is_carried_out(tmp_path: Path, lab: Lab, people: People) -> None:
    world = make_world(lab, people.operator, tmp_path)
    start, answers = Barrier(6), []

    def ask() -> None:
        client = Client()
        client.force_login(people.reviewer)
        start.wait()
        answers.append(send(client, f"gates/{world.gate.pk}/decide", ANSWER))
        connection.close()

    threads = [Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {(answer.status_code, answer.content) for answer in answers} == {(200, answers[0].content)}
    assert sum("Idempotency-Replayed" in answer.headers for answer in answers) == 5
    assert Decision.objects.filter(gate=world.gate).count() == 1
