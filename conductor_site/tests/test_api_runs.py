"""Runs through the API: beginning them, steering them, their settings and their tilt series."""

from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from conductor_site.tests.world import World, make_target, make_world
from record.models import Decision, Event, Lab
from record.tests.factories import People
from runs.models import Phase, Run, TiltSeries


@pytest.fixture
def world(lab: Lab, people: People, tmp_path: Path, client: Client) -> World:
    client.force_login(people.operator)
    return make_world(lab, people.operator, tmp_path)


def post(client: Client, path: str, body: Any) -> Any:
    return client.post(f"/api/v1/{path}/", body, content_type="application/json")


def a_run(world: World, **changes: Any) -> dict[str, Any]:
    return {
        "pipeline": world.pipeline.pk,
        "target": world.target.pk,
        "name": "grid 4",
        "work_dir": f"{world.target.roots[0]}/grid_4",
        "conf": {"DIM": 64},
        "species": ["alpha", "beta"],
    } | changes


def test_a_pipeline_says_what_may_be_set(world: World, client: Client) -> None:
    pipeline = client.get(f"/api/v1/pipelines/{world.pipeline.pk}/").json()
    assert pipeline["fault"] == ""
    assert [phase["key"] for phase in pipeline["spec"]["phases"]] == ["1", "2", "3a", "3b"]
    assert [(each["key"], each["unit"], each["max"]) for each in pipeline["spec"]["fields"]][0] == ("DIM", "px", 512)
    (Path(world.pipeline.folder) / "scripts" / "manifest.yml").write_text("phases: [")
    broken = client.get(f"/api/v1/pipelines/{world.pipeline.pk}/").json()
    assert broken["spec"] is None
    assert "scripts/manifest.yml" in broken["fault"]


def test_beginning_a_run(world: World, people: People, client: Client) -> None:
    answer = post(client, "runs", a_run(world))
    assert answer.status_code == 201, answer.content
    made = answer.json()
    run = Run.objects.get(pk=made["id"])
    assert (run.name, run.created_by, run.conf) == ("grid 4", people.operator, {"DIM": "64"})
    assert [species["label"] for species in made["species"]] == ["alpha", "beta"]
    assert len(made["phases"]) == 6
    assert client.get(answer.headers["Location"]).json()["name"] == "grid 4"


@pytest.mark.parametrize(
    "changes",
    [
        {"name": ""},
        {"name": "x" * 400},
        {"name": "a\u202eb"},
        {"work_dir": "/etc/grid"},
        {"work_dir": "relative"},
        {"work_dir": "@root/../../etc"},
        {"work_dir": "@root/a b"},
        {"work_dir": "@root/a;rm"},
        {"work_dir": "@root/" + "x" * 4000},
        {"conf": {"NO_SUCH": 1}},
        {"conf": {"DIM": "many"}},
        {"conf": {"DIM": 1e9}},
        {"conf": {"DIM": [1]}},
        {"conf": []},
        {"species": "alpha"},
        {"species": ["al pha"]},
        {"species": ["alpha", "alpha"]},
        {"species": [{"a": 1}]},
        {"preset": "none"},
        {"pipeline": 10**30},
        {"pipeline": "tomo"},
        {"target": None},
        {"lab": 1},
    ],
    ids=str,
)
def test_what_cannot_be_begun(changes: dict[str, Any], world: World, client: Client) -> None:
    root = world.target.roots[0]
    changes = {key: value.replace("@root", root) if isinstance(value, str) else value for key, value in changes.items()}
    before = Run.objects.count()
    answer = post(client, "runs", a_run(world, **changes))
    assert answer.status_code == 400
    assert answer.json()["detail"]
    assert Run.objects.count() == before


def test_another_labs_target_does_not_exist(world: World, people: People, client: Client, tmp_path: Path) -> None:
    elsewhere = Lab.objects.get(slug="other")
    theirs = make_target(elsewhere, tmp_path / "theirs", name="theirs")
    answer = post(client, "runs", a_run(world, target=theirs.pk))
    assert (answer.status_code, list(answer.json()["extra"]["fields"])) == (400, ["target"])


def test_pausing_and_resuming(world: World, client: Client) -> None:
    assert post(client, f"runs/{world.run.pk}/pause", {"reason": "beam time"}).json()["state"] == "paused"
    again = post(client, f"runs/{world.run.pk}/pause", {})
    assert (again.status_code, again.json()["code"]) == (409, "invalid_transition")
    assert post(client, f"runs/{world.run.pk}/resume", {}).json()["state"] == "running"
    assert "beam time" in Event.objects.get(kind="run.pause").message


def test_cancelling_then_archiving_are_decisions(world: World, client: Client) -> None:
    assert post(client, f"runs/{world.run.pk}/archive", {}).status_code == 409
    assert post(client, f"runs/{world.run.pk}/cancel", {"reason": "wrong grid"}).json()["state"] == "cancelled"
    assert post(client, f"runs/{world.run.pk}/archive", {"reason": "tidying"}).json()["archived_at"]
    said = list(Decision.objects.filter(subject_uuid=world.run.uuid).order_by("number").values_list("verdict", "door"))
    assert said == [("cancel", "api"), ("archive", "api")]
    assert post(client, f"runs/{world.run.pk}/resume", {}).status_code == 409


def test_changing_a_value(world: World, client: Client) -> None:
    url = f"runs/{world.run.pk}/conf"
    assert post(client, url, {"values": {"DIM": 64}, "reason": "finer"}).json()["conf"] == {"DIM": "64"}
    body = {"values": {"MIN_SCORE": 0.7}, "species": "alpha", "reason": "fewer picks"}
    assert post(client, url, body).json()["species"][0]["conf"] == {"MIN_SCORE": "0.7"}
    decision = Decision.objects.filter(verdict="set_conf").latest("number")
    assert (decision.config_before, decision.config_after) == ({"MIN_SCORE": "0.5"}, {"MIN_SCORE": "0.7"})


@pytest.mark.parametrize(
    "body",
    [{}, {"values": {}}, {"values": {"DIM": 1}}, {"values": {"NONE": 1}}, {"values": {"MIN_SCORE": 1}, "species": "x"},
     {"values": {"DIM": 64}, "lab": 1}],
)  # fmt: skip
def test_values_that_cannot_be_used(body: dict[str, Any], world: World, client: Client) -> None:
    assert post(client, f"runs/{world.run.pk}/conf", body).status_code == 400
    assert Run.objects.get(pk=world.run.pk).conf == {}


def test_steering_phases(world: World, client: Client) -> None:
    failed, first = world.failed_phase, world.phase
    assert post(client, f"phases/{first.pk}/retry", {}).status_code == 409
    assert post(client, f"phases/{failed.pk}/retry", {}).json()["state"] in ("ready", "pending")
    owed = post(client, f"phases/{first.pk}/skip", {})
    assert (owed.status_code, owed.json()["code"]) == (400, "reason_owed")
    assert post(client, f"phases/{first.pk}/skip", {"reason": "imported by hand"}).json()["state"] == "skipped"
    Phase.objects.filter(pk=failed.pk).update(state="done")
    again = post(client, f"phases/{failed.pk}/run-again", {"reason": "new gain", "keep_outputs": True})
    assert again.json()["state"] in ("ready", "pending")


def test_a_tilt_series_out_and_in_again(world: World, people: People, client: Client) -> None:
    client.force_login(people.reviewer)
    url = f"tilt-series/{world.series.pk}"
    out = post(client, f"{url}/exclude", {"reason": "ice"}).json()
    decision = Decision.objects.get(uuid=out["excluded_by"])
    assert (out["excluded"], decision.verdict, decision.statement.reason) == (True, "exclude", "ice")
    assert len(client.get("/api/v1/tilt-series/?excluded=true").json()["results"]) == 1
    assert not post(client, f"{url}/include", {"reason": "thin enough"}).json()["excluded"]
    assert TiltSeries.objects.get(pk=world.series.pk).excluded_by is None


def test_a_phase_tells_how_long_it_has_run(world: World, client: Client) -> None:
    told = client.get(f"/api/v1/phases/{world.phase.pk}/").json()["estimate"]
    assert told == {"elapsed_s": 0.0, "remaining_s": None, "from_attempts": 0}
