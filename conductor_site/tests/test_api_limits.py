"""How many requests a minute: reads and commands apart, each token by itself, all processes of a host together."""

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine
from django.test import Client

from conductor_site.api.limits import count_request
from conductor_site.api.tokens import make_token
from conductor_site.tests.world import World, make_world
from record.models import Lab
from record.tests.factories import People
from runs.models import Run

NOW = datetime(2026, 3, 1, 12, 0, 40, tzinfo=UTC)


@pytest.fixture
def world(lab: Lab, people: People, tmp_path: Path, settings: Any) -> World:
    settings.API_LIMITS = tmp_path / "limits"
    settings.API_READS_A_MINUTE, settings.API_COMMANDS_A_MINUTE = 3, 2
    return make_world(lab, people.operator, tmp_path)


def tokens(people: People) -> list[dict[str, str]]:
    return [{"Authorization": f"Token {make_token(user=people.operator, name=name)[1]}"} for name in "ab"]


def test_too_many_reads_wait_for_the_next_minute(world: World, people: People, client: Client) -> None:
    with time_machine.travel(NOW, tick=False) as clock:
        one, other = tokens(people)
        answers = [client.get("/api/v1/runs/", headers=one) for _ in range(4)]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
        refused = answers[-1]
        assert (refused.json()["code"], refused.headers["Retry-After"]) == ("too_many_requests", "20")
        assert refused["Content-Type"] == "application/problem+json"
        assert client.get("/api/v1/runs/", headers=other).status_code == 200
        clock.shift(timedelta(seconds=20))
        assert client.get("/api/v1/runs/", headers=one).status_code == 200


def test_commands_are_counted_apart(world: World, people: People, client: Client) -> None:
    with time_machine.travel(NOW, tick=False):
        mine, _ = tokens(people)
        verbs = ["pause", "resume", "pause"]
        sent = [client.post(f"/api/v1/runs/{world.run.pk}/{verb}/", {}, "application/json", headers=mine)
                for verb in verbs]  # fmt: skip
        assert [answer.status_code for answer in sent] == [200, 200, 429]
        assert Run.objects.get(pk=world.run.pk).state == "running"
        assert client.get("/api/v1/runs/", headers=mine).status_code == 200


def test_a_browser_counts_as_its_person_and_pages_do_not_count(world: World, people: People, client: Client) -> None:
    with time_machine.travel(NOW, tick=False):
        client.force_login(people.viewer)
        assert [client.get("/runs/").status_code for _ in range(5)] == [200] * 5
        assert [client.get("/api/v1/runs/").status_code for _ in range(4)] == [200, 200, 200, 429]


COUNT = """
import django; django.setup()
from conductor_site.api.limits import count_request
[count_request("shared") for _ in range(200)]
"""


def test_all_processes_count_together(tmp_path: Path, settings: Any) -> None:
    environment = os.environ | {"DJANGO_SETTINGS_MODULE": "conductor_site.settings", "CONDUCTOR_DATA": str(tmp_path)}
    done = [subprocess.Popen([sys.executable, "-c", COUNT], env=environment) for _ in range(2)]
    assert [process.wait() for process in done] == [0, 0]
    counts = list((tmp_path / "api_limits").iterdir())
    assert sum(path.stat().st_size for path in counts) == 400


def test_minutes_that_are_over_are_forgotten(tmp_path: Path, settings: Any) -> None:
    settings.API_LIMITS = tmp_path / "limits"
    with time_machine.travel(NOW, tick=False) as clock:
        assert [count_request("a"), count_request("a"), count_request("b")] == [1, 2, 1]
        clock.shift(timedelta(minutes=3))
        assert count_request("a") == 1
    assert len(list(settings.API_LIMITS.iterdir())) == 1


def test_a_disk_that_takes_no_count_refuses_nobody(tmp_path: Path, settings: Any) -> None:
    (tmp_path / "file").touch()
    settings.API_LIMITS = tmp_path / "file" / "limits"
    assert count_request("a") == 0
