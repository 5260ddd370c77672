"""The pages of targets, jobs and logs."""

from pathlib import Path
from uuid import uuid4

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from jobs.hosts import this_host
from jobs.models import Job, Target
from record.models import Lab
from record.tests.factories import People


@pytest.fixture
def job(lab: Lab, tmp_path: Path) -> Job:
    """A running job whose output's log is `out.log` in the test's folder."""
    target = Target.objects.create(
        lab=lab, name="here", host=this_host(), roots=[str(tmp_path)], job_folder=str(tmp_path)
    )
    return Job.objects.create(
        lab=lab,
        target=target,
        name="align",
        state="running",
        subject_kind="phase",
        subject_uuid=uuid4(),
        script="true",
        work_dir=str(tmp_path),
        time_limit_s=60,
        memory_mib=100,
        stdout_path=str(tmp_path / "out.log"),
        stderr_path=str(tmp_path / "err.log"),
    )


def log(client: Client, job: Job, **query: object) -> str:
    response = client.get(reverse("jobs:log", args=[job.pk]), query)
    assert response.status_code == 200
    return response.content.decode()


def test_a_hostile_log_is_shown_as_text(client: Client, people: People, job: Job) -> None:
    Path(job.stdout_path).write_bytes(b"<img src=x onerror=alert(1)>\n\x1b[31mred\x1b[0m\x00 1%\r 50%\r100%\n\xff\xfe")
    client.force_login(people.viewer)
    text = log(client, job)
    assert "&lt;img src=x" in text and "<img src=x" not in text
    assert "\x1b" not in text and "\x00" not in text


def test_a_long_log_is_paged_by_bytes(client: Client, people: People, job: Job) -> None:
    Path(job.stdout_path).write_text("".join(f"line {number:07}\n" for number in range(20_000)))
    client.force_login(people.viewer)
    text = log(client, job)
    assert "line 0019999" in text and "line 0000000" not in text
    assert "followed while the job runs" in text
    first = log(client, job, start=0)
    assert "line 0000000" in first and "start=65536" in first and "hx-trigger" not in first
    assert log(client, job, start=10**15)
    assert "line 0019999" in log(client, job, start="nonsense", stream="odd")


def test_a_log_that_is_not_there_is_told_in_words(client: Client, people: People, job: Job) -> None:
    client.force_login(people.viewer)
    assert "is not there" in log(client, job)
    assert "is not there" in client.get(reverse("jobs:job", args=[job.pk])).content.decode()


def test_a_link_out_of_the_roots_is_not_followed(
    client: Client, people: People, job: Job, tmp_path_factory: pytest.TempPathFactory
) -> None:
    secret = tmp_path_factory.mktemp("elsewhere") / "secret"
    secret.write_text("hidden words")
    Path(job.stdout_path).symlink_to(secret)
    client.force_login(people.viewer)
    for name in ("jobs:log", "jobs:job"):
        page = client.get(reverse(name, args=[job.pk])).content.decode()
        assert "hidden words" not in page and "lies outside the folders" in page


def test_a_job_that_has_not_started_says_so(client: Client, people: People, job: Job) -> None:
    Job.objects.filter(pk=job.pk).update(state="planned")
    client.force_login(people.viewer)
    assert "Not started yet." in log(client, job)


def test_polling_a_log_ends_with_the_job(client: Client, people: People, job: Job) -> None:
    Path(job.stdout_path).write_text("done\n")
    Job.objects.filter(pk=job.pk).update(state="succeeded", ended_at=timezone.now())
    client.force_login(people.viewer)
    for name in ("jobs:log", "jobs:job"):
        response = client.get(reverse(name, args=[job.pk]), headers={"HX-Request": "true"})
        assert response.status_code == 286
        assert "HX-Request" in response.headers["Vary"]


def test_cancelling_is_for_operators(client: Client, people: People, job: Job) -> None:
    url = reverse("jobs:cancel", args=[job.pk])
    for person, status in [(people.viewer, 403), (people.outsider, 404)]:
        client.force_login(person)
        assert client.post(url, {"reason": "wrong"}).status_code == status
    job.refresh_from_db()
    assert job.cancel_requested_at is None
    client.force_login(people.operator)
    assert client.post(url, {"reason": "wrong"}).status_code == 302
    job.refresh_from_db()
    assert job.cancel_requested_at is not None


def test_checking_a_target_says_in_words_what_is_wrong(client: Client, people: People, job: Job) -> None:
    page, check = (reverse(f"jobs:{name}", args=[job.target_id]) for name in ("target", "check"))
    client.force_login(people.viewer)
    assert check not in client.get(page).content.decode()
    assert client.post(check).status_code == 403
    client.force_login(people.operator)
    assert check in client.get(page).content.decode()
    Target.objects.update(host="h")
    whole = client.post(check).content.decode()
    assert "It belongs to the host h, this is" in whole and "<h1" in whole
    Target.objects.update(host=this_host(), roots=["/no/such/folder"])
    part = client.post(check, headers={"HX-Request": "true"}).content.decode()
    assert "The root /no/such/folder is not there" in part and "<h1" not in part


def test_a_target_shows_its_limits_and_jobs(client: Client, people: People, job: Job) -> None:
    client.force_login(people.viewer)
    assert "1 / 2" in client.get(reverse("jobs:targets")).content.decode()
    text = client.get(reverse("jobs:target", args=[job.target_id])).content.decode()
    assert "align" in text and "at most 8192 MiB" in text
