"""Jobs through the API: their logs by line and by byte, and their end."""

from pathlib import Path

import pytest
from django.test import Client

from conductor_site.tests.world import World, make_world
from jobs.models import Job
from record.models import Event, Lab
from record.tests.factories import People


@pytest.fixture
def world(lab: Lab, people: People, tmp_path: Path, client: Client) -> World:
    world = make_world(lab, people.operator, tmp_path)
    log = tmp_path / "work" / "align.out"
    log.write_bytes(b"".join(b"line %03d\n" % number for number in range(200)))
    Job.objects.filter(pk=world.job.pk).update(state="running", stdout_path=str(log))
    client.force_login(people.viewer)
    return world


def test_the_end_of_a_log(world: World, client: Client) -> None:
    log = client.get(f"/api/v1/jobs/{world.job.pk}/log/?lines=2").json()
    assert log == {"text": "line 198\nline 199\n", "start": 1782, "end": 1800, "size": 1800}


def test_a_range_of_bytes(world: World, client: Client) -> None:
    log = client.get(f"/api/v1/jobs/{world.job.pk}/log/?start=9&length=9").json()
    assert (log["text"], log["start"], log["end"]) == ("line 001\n", 9, 18)
    after = client.get(f"/api/v1/jobs/{world.job.pk}/log/?start=1800").json()
    assert (after["text"], after["end"]) == ("", 1800)


def test_a_job_that_has_not_run_has_an_empty_log(world: World, client: Client) -> None:
    Job.objects.update(state="planned")
    assert client.get(f"/api/v1/jobs/{world.job.pk}/log/").json()["size"] == 0
    assert client.get(f"/api/v1/jobs/{world.job.pk}/log/?stream=stderr").json()["size"] == 0


@pytest.mark.parametrize("query", ["lines=0", "lines=many", "start=-1", "length=99999999999", "stream=x", "tail=3"])
def test_bad_questions_are_refused(query: str, world: World, client: Client) -> None:
    assert client.get(f"/api/v1/jobs/{world.job.pk}/log/?{query}").status_code == 400


def test_a_link_out_of_the_roots_is_not_followed(world: World, client: Client, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hidden")
    log = tmp_path / "work" / "align.out"
    log.unlink()
    log.symlink_to(secret)
    answer = client.get(f"/api/v1/jobs/{world.job.pk}/log/")
    assert answer.status_code == 400
    assert b"hidden" not in answer.content


def test_a_log_that_is_gone_is_told(world: World, client: Client, tmp_path: Path) -> None:
    (tmp_path / "work" / "align.out").unlink()
    answer = client.get(f"/api/v1/jobs/{world.job.pk}/log/")
    assert answer.status_code == 502
    assert "align.out" in answer.json()["detail"]


def test_cancelling_says_who_and_why(world: World, people: People, client: Client) -> None:
    Job.objects.update(state="planned")
    client.force_login(people.operator)
    url = f"/api/v1/jobs/{world.job.pk}/cancel/"
    answer = client.post(url, {"reason": "wrong folder"}, content_type="application/json")
    assert (answer.status_code, answer.json()["state"]) == (200, "cancelled")
    event = Event.objects.get(kind="job.cancel")
    assert "operator" in event.message
    assert "wrong folder" in event.message
    assert client.post(url, {}, content_type="application/json").status_code == 200
    assert Event.objects.filter(kind="job.cancel").count() == 1


def test_a_viewer_cannot_cancel(world: World, client: Client) -> None:
    answer = client.post(f"/api/v1/jobs/{world.job.pk}/cancel/", {}, content_type="application/json")
    assert answer.status_code == 403
    assert "operator" in answer.json()["detail"]
