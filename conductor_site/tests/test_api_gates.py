"""Gates through the API: what is asked and shown, answers, refusals, and the files that were shown."""

from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from conductor_site.tests.world import PIXEL, World, make_world
from gates.describe import describe_form
from gates.generic import PROTOCOL
from gates.models import Gate
from gates.store import path_of
from record.models import Decision, Lab
from record.tests.factories import People


@pytest.fixture
def world(lab: Lab, people: People, tmp_path: Path, client: Client) -> World:
    client.force_login(people.reviewer)
    return make_world(lab, people.operator, tmp_path)


def post(client: Client, gate: Gate, verb: str, body: Any) -> Any:
    return client.post(f"/api/v1/gates/{gate.pk}/{verb}/", body, content_type="application/json")


def an_answer(**changes: Any) -> dict[str, Any]:
    return {"verdict": "approve", "answers": {"shift": 4.5}, "digest": "d" * 64} | changes


def test_a_gate_says_what_it_asks(world: World, client: Client) -> None:
    gate = client.get(f"/api/v1/gates/{world.gate.pk}/").json()
    assert gate["may_answer"] == {"allowed": True, "code": "", "message": ""}
    assert [verdict["verdict"] for verdict in gate["verdicts"]] == ["approve", "send_back", "reject"]
    assert [piece["sha256"] for piece in gate["evidence"]] == [world.evidence.sha256]
    (field,) = gate["form"]
    assert (field["name"], field["kind"], field["unit"]) == ("shift", "number", "px")
    assert (field["min"], field["max"], field["initial"]) == (0, 20, 4.5)


def test_a_viewer_is_told_why_they_may_not_answer(world: World, people: People, client: Client) -> None:
    client.force_login(people.viewer)
    told = client.get(f"/api/v1/gates/{world.gate.pk}/").json()["may_answer"]
    assert (told["allowed"], told["code"]) == (False, "not_allowed")
    assert "reviewer" in told["message"]


def test_a_gate_without_its_protocol_can_be_read(world: World, client: Client) -> None:
    Gate.objects.filter(pk=world.gate.pk).update(protocol="gone")
    gate = client.get(f"/api/v1/gates/{world.gate.pk}/").json()
    assert (gate["form"], gate["verdicts"], gate["may_answer"]["code"]) == (None, [], "unknown_protocol")
    assert post(client, world.gate, "decide", an_answer()).status_code == 409


def test_deciding_writes_the_decision_by_the_apis_door(world: World, people: People, client: Client) -> None:
    answer = post(client, world.gate, "decide", an_answer(answers={"shift": 6}, reason="the drift is larger"))
    assert answer.status_code == 200
    said = answer.json()
    decision = Decision.objects.get(uuid=said["decision"])
    assert (decision.actor, decision.door, decision.verdict) == (people.reviewer, "api", "approve")
    assert (decision.statement.answers, decision.statement.reason) == ({"shift": 6.0}, "the drift is larger")
    assert said["gate"]["state"] == "decided"
    assert str(decision.number) in said["message"]
    shown = client.get(f"/api/v1/decisions/{decision.uuid}/").json()
    assert (shown["answers"], shown["actor"], shown["gate_uuid"]) == ({"shift": 6.0}, "reviewer", str(world.gate.uuid))


def test_the_second_answer_is_told_of_the_first(world: World, people: People, client: Client) -> None:
    post(client, world.gate, "decide", an_answer())
    client.force_login(people.administrator)
    late = post(client, world.gate, "decide", an_answer(verdict="reject", reason="too noisy"))
    assert (late.status_code, late.json()["code"]) == (409, "decided")
    assert late.json()["extra"]["by"] == "reviewer"


@pytest.mark.parametrize(
    ("changes", "status", "code"),
    [
        ({"digest": "e" * 64}, 409, "stale"),
        ({"digest": None}, 400, "bad_input"),
        ({"verdict": "maybe"}, 400, "bad_verdict"),
        ({"verdict": ["approve"]}, 400, "bad_input"),
        ({"verdict": "reject"}, 400, "reason_owed"),
        ({"answers": {"shift": 21}}, 400, "invalid_answers"),
        ({"answers": {"shift": "many"}}, 400, "invalid_answers"),
        ({"answers": {"shift": [1]}}, 400, "invalid_answers"),
        ({"answers": {"shift": 6}}, 400, "reason_owed"),
        ({"answers": {"drift": 6}}, 400, "invalid_answers"),
        ({"answers": [1]}, 400, "bad_input"),
        ({"answer": {}}, 400, "bad_input"),
        ({"override": True, "reason": "no"}, 403, "not_allowed"),
    ],
)
def test_answers_that_are_refused(
    changes: dict[str, Any], status: int, code: str, world: World, client: Client
) -> None:
    before = Decision.objects.count()
    answer = post(client, world.gate, "decide", an_answer(**changes))
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert Decision.objects.count() == before
    assert Gate.objects.get(pk=world.gate.pk).state == "open"


def test_an_administrator_overrides_with_a_reason(world: World, people: People, client: Client) -> None:
    Gate.objects.filter(pk=world.gate.pk).update(policy={"who": ["reviewer"]})
    client.force_login(people.administrator)
    assert post(client, world.gate, "decide", an_answer()).status_code == 403
    answer = post(client, world.gate, "decide", an_answer(override=True, reason="the reviewer is away"))
    assert answer.status_code == 200
    assert Decision.objects.get(uuid=answer.json()["decision"]).override


def test_one_of_two_answers_waits_for_the_other(world: World, people: People, client: Client) -> None:
    Gate.objects.filter(pk=world.gate.pk).update(policy={"quorum": 2})
    first = post(client, world.gate, "decide", an_answer()).json()
    assert (first["decision"], first["gate"]["state"]) == (None, "open")
    assert "1 of 2" in first["message"]
    client.force_login(people.administrator)
    assert post(client, world.gate, "decide", an_answer()).json()["decision"]


def test_what_approving_would_do(world: World, people: People, client: Client) -> None:
    Gate.objects.filter(pk=world.gate.pk).update(
        options=world.gate.options | {"consequence": "The mask is drawn anew."}
    )
    client.force_login(people.viewer)
    told = post(client, world.gate, "consequence", {"answers": {"shift": 6}})
    assert told.json() == {"consequence": "The mask is drawn anew.", "differing": ["shift"]}
    assert post(client, world.gate, "consequence", {"answers": {"shift": 4.5}}).json()["differing"] == []
    refused = post(client, world.gate, "consequence", {"answers": {"shift": 60}})
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_answers")
    assert "shift" in refused.json()["extra"]["errors"]
    assert not Decision.objects.filter(gate=world.gate).exists()


def test_what_waits_for_me(world: World, people: People, client: Client) -> None:
    assert [gate["id"] for gate in client.get("/api/v1/gates/waiting/").json()] == [
        world.gate.pk,
        world.advised_gate.pk,
    ]
    client.force_login(people.operator)
    assert client.get("/api/v1/gates/waiting/").json() == []


def test_reopening_shows_the_new_iteration(world: World, client: Client) -> None:
    fresh = post(client, world.ended_gate, "reopen", {"reason": "look again"}).json()
    assert (fresh["iteration"], fresh["key"]) == (2, "timed_out")
    old = client.get(f"/api/v1/gates/{world.ended_gate.pk}/").json()
    assert old["next"] == fresh["id"]
    again = post(client, world.ended_gate, "reopen", {"reason": "look again"})
    assert (again.status_code, again.json()["extra"]["gate"]) == (409, fresh["id"])


def test_a_reason_is_owed_for_taking_back(world: World, client: Client) -> None:
    answer = post(client, world.gate, "withdraw", {})
    assert (answer.status_code, answer.json()["code"]) == (400, "reason_owed")
    assert post(client, world.gate, "withdraw", {"reason": "asked twice"}).json()["state"] == "withdrawn"


def test_the_file_that_was_shown(world: World, client: Client) -> None:
    url = f"/api/v1/evidence/{world.evidence.uuid}/file/"
    answer = client.get(url, headers={"Accept": "image/png"})
    assert (answer.status_code, answer.content) == (200, PIXEL)
    assert answer.headers["Content-Type"] == "image/png"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Content-Security-Policy"] == "sandbox; default-src 'none'"
    assert answer.headers["Content-Disposition"] == 'attachment; filename="00_slices_TS_001.png"'
    assert client.get(url, headers={"If-None-Match": answer.headers["ETag"]}).status_code == 304


def test_a_file_that_was_altered_is_not_served(world: World, client: Client) -> None:
    path_of(world.evidence.sha256).write_bytes(b"<script>")
    answer = client.get(f"/api/v1/evidence/{world.evidence.uuid}/file/")
    assert (answer.status_code, answer.json()["code"]) == (410, "evidence_altered")


def test_every_kind_of_field_is_described() -> None:
    fields = [
        {"name": "remark", "kind": "text", "required": False, "max_length": 50},
        {"name": "bins", "kind": "number", "whole": True},
        {"name": "method", "kind": "choice", "choices": {"a": "fast", "b": "careful"}, "default": "b"},
        {"name": "bands", "kind": "many", "choices": ["low", "high"]},
        {"name": "series", "kind": "items", "items": ["TS_1", "TS_2"]},
    ]
    gate = Gate(protocol="generic", options={"fields": fields})
    gate.suggestion = PROTOCOL.suggest(gate, {})
    remark, bins, method, bands, series = describe_form(PROTOCOL.form(gate))
    assert (remark["kind"], remark["required"], remark["max_length"]) == ("text", False, 50)
    assert (bins["kind"], bins["whole"], bins["min"]) == ("number", True, None)
    assert (method["kind"], method["choices"], method["initial"]) == ("choice", {"a": "fast", "b": "careful"}, "b")
    assert (bands["kind"], bands["choices"]) == ("many", {"low": "low", "high": "high"})
    assert (series["kind"], series["items"], series["keep"]) == ("items", ["TS_1", "TS_2"], True)
    assert set(series["verdicts"]) == {"good", "suspect", "bad"}
    assert series["initial"]["TS_1"]["verdict"] == "good"
