"""Figures for Prometheus: what they say, to whom, at what cost."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from conductor_site.metrics import render_metrics
from conductor_site.tests.world import World, make_job, make_world
from jobs.drain import begin_drain
from jobs.models import ClusterWatch, ConductLease, Job, Pulse, Target
from record.models import Lab
from record.tests.factories import People

pytestmark = pytest.mark.django_db

TOKEN = "a-token-for-tests"


@pytest.fixture
def world(lab: Lab, people: People, tmp_path: Path) -> World:
    return make_world(lab, people.operator, tmp_path)


def figures(text: str) -> dict[tuple[str, ...], float]:
    """(name, its labels' values) -> value of every sample."""
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {(sample.name, *sample.labels.values()): sample.value for sample in samples}


def test_what_is_told_of_a_lab_at_work(world: World) -> None:
    told = figures(render_metrics().decode())
    slug, target = world.lab.slug, world.target.name
    assert told["conductor_jobs", slug, "planned"] == 1
    assert told["conductor_target_jobs_planned", slug, target] == 1
    assert told["conductor_target_slots", slug, target] == world.target.slots
    assert told["conductor_gates", slug, "open"] == 2
    assert told["conductor_gates", slug, "apply_failed"] == 1
    assert ("conductor_gates", slug, "timed_out") not in told
    assert told["conductor_runs", slug, "paused"] == 1
    assert ("conductor_runs", slug, "cancelled") not in told
    assert told["conductor_phases", slug, "failed"] == 1
    assert told["conductor_decisions_total", slug] == 1
    assert told["conductor_gate_oldest_open_seconds", slug] < 60
    assert told["conductor_data_free_bytes",] > 0 and told["conductor_database_bytes",] > 0
    assert ("conductor_conduct_age_seconds",) not in told


def test_signs_of_life_and_maintenance() -> None:
    ago = timezone.now() - timedelta(seconds=100)
    ConductLease.objects.create(name="tick", holder="h", expires_at=ago, beat_at=ago)
    Pulse.objects.create(cluster="c", beat_at=ago)
    begin_drain(reason="upgrade")
    told = figures(render_metrics().decode())
    assert 100 <= told["conductor_conduct_age_seconds",] < 160
    assert 100 <= told["conductor_pulse_age_seconds",] < 160
    assert told["conductor_draining",] == 1


def test_a_job_that_nobody_takes_up_makes_its_target_stuck(world: World, client: Client) -> None:
    named = ("conductor_target_stuck", world.lab.slug, world.target.name)
    assert figures(render_metrics().decode())[named] == 0
    Job.objects.update(planned_at=timezone.now() - timedelta(minutes=5))
    assert figures(render_metrics().decode())[named] == 1
    assert client.get("/healthz").json()["targets_stuck"] == 1
    Job.objects.update(held=True)
    assert figures(render_metrics().decode())[named] == 0


NAMES = ["conductor_target_failures", "conductor_target_rest_seconds", "conductor_target_needs_sign_in"]


@pytest.mark.parametrize(
    ("watch", "state"),
    [
        ({"failures": 3, "problem": "login failed", "rests_s": 40}, "unreachable"),
        ({"failures": 1, "sign_in": "ssh cluster", "rests_s": 40}, "needs_sign_in"),
        ({"busy": 1, "busy_s": 40}, "busy"),
        ({"failures": 3, "rests_s": -300}, "stuck"),
        ({}, "stuck"),
    ],
)
def test_a_cluster_that_rests_is_told_and_makes_nothing_ill(
    watch: dict[str, Any], state: str, world: World, client: Client, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobs.shells.shell_for", None)  # nothing is asked of a target
    settings.METRICS_TOKEN = TOKEN
    now = timezone.now()
    Target.objects.filter(pk=world.target.pk).update(kind="slurm")
    Job.objects.update(planned_at=now - timedelta(minutes=5))
    rests_s, busy_s = watch.pop("rests_s", None), watch.pop("busy_s", None)
    ClusterWatch.objects.create(
        target=world.target,
        closed_until=rests_s and now + timedelta(seconds=rests_s),
        submit_after=busy_s and now + timedelta(seconds=busy_s),
        **watch,
    )

    asked = client.get("/healthz", headers={"Authorization": f"Bearer {TOKEN}"}).json()
    (told,) = asked["each_target"]
    assert (told["target"], told["state"]) == (world.target.name, state)
    assert told["failures"] == watch.get("failures", 0) and told["problem"] == watch.get("problem", "")
    assert (told["rests_until"] is not None) == (state not in ("stuck",))
    assert asked["targets_by_state"] == {state: 1} and asked["targets"] == (state != "stuck")
    assert "each_target" not in client.get("/healthz").json()

    shown = figures(render_metrics().decode())
    failures, rest_s, sign_in = (shown[name, world.lab.slug, world.target.name] for name in NAMES)
    assert (failures, sign_in) == (watch.get("failures", 0), state == "needs_sign_in")
    assert (0 < rest_s <= 40) == (told["rests_until"] is not None)


def test_a_full_or_paused_target_is_not_stuck(world: World) -> None:
    named = ("conductor_target_stuck", world.lab.slug, world.target.name)
    Job.objects.update(planned_at=timezone.now() - timedelta(minutes=5))
    for _ in range(world.target.slots):
        job = make_job(world.lab, world.target, world.phase, Path(world.target.roots[0]))
        Job.objects.filter(pk=job.pk).update(state="running")
    assert figures(render_metrics().decode())[named] == 0
    Job.objects.filter(state="running").delete()
    world.target.paused = True
    world.target.save()
    assert figures(render_metrics().decode())[named] == 0


def test_the_number_of_queries_does_not_grow(
    world: World, people: People, tmp_path: Path, django_assert_num_queries: Any
) -> None:
    with CaptureQueriesContext(connection) as once:
        render_metrics()
    make_world(world.lab, people.operator, tmp_path / "more", name="second")
    with django_assert_num_queries(len(once)):
        render_metrics()
    assert len(once) <= 16


def test_without_a_setting_there_is_no_such_page(client: Client) -> None:
    assert client.get("/metrics").status_code == 404


def test_the_token_opens_it_and_no_other(client: Client, settings: Any) -> None:
    settings.METRICS_TOKEN = TOKEN
    assert client.get("/metrics").status_code == 403
    assert client.get("/metrics", headers={"Authorization": "Bearer another"}).status_code == 403
    assert client.get("/metrics", headers={"Authorization": "Bearer ä"}).status_code == 403
    answer = client.get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
    assert answer.status_code == 200
    assert answer.headers["Content-Type"].startswith("text/plain; version=")
    assert "conductor_draining 0.0" in answer.content.decode()


@pytest.mark.parametrize(
    ("address", "status"), [("10.1.2.3", 200), ("::ffff:10.1.2.3", 200), ("10.2.0.1", 403), ("fd00::1", 200), ("", 403)]
)
def test_addresses_that_are_let_in(address: str, status: int, client: Client, settings: Any) -> None:
    settings.METRICS_FROM = ["10.1.0.0/16", "fd00::/8"]
    assert client.get("/metrics", REMOTE_ADDR=address).status_code == status


def test_behind_a_proxy_what_it_added_counts_and_not_what_was_claimed(client: Client, settings: Any) -> None:
    settings.METRICS_FROM = ["10.1.0.0/16"]
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    claimed = {"X-Forwarded-For": "10.1.0.1, 203.0.113.9"}
    assert client.get("/metrics", REMOTE_ADDR="10.1.0.2", headers=claimed).status_code == 403


def test_a_database_that_is_away_is_said_so(client: Client, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise OperationalError("gone")

    settings.METRICS_TOKEN = TOKEN
    monkeypatch.setattr("conductor_site.metrics.render_metrics", refuse)
    assert client.get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 503
