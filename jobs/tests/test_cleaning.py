"""Token folders and logs of ended jobs are cleared away; nothing else is."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from django.utils import timezone

from jobs.cleaning import Swept, clean_jobs, unknown_folders
from jobs.models import Job, Target

pytestmark = pytest.mark.django_db


@pytest.fixture
def ended(plan: Callable[..., Job]) -> Job:
    """A job that has ended and been dealt with, with what it leaves."""
    job = plan()
    leave(job)
    Job.objects.filter(pk=job.pk).update(state="succeeded", ended_at=timezone.now(), final_handled=True)
    return job


def leave(job: Job) -> None:
    folder = Path(job.job_folder) / job.token
    (folder / "script").mkdir(parents=True)
    (folder / "script" / "3.5_align.slurm").write_text("0123456789")
    os.symlink("/etc/hosts", folder / "link")
    for path in (job.stdout_path, job.stderr_path):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text("12345")


def test_folder_and_logs_go_and_results_stay(ended: Job, tmp_path: Path) -> None:
    (tmp_path / "tomogram.mrc").write_text("result")
    (tmp_path / "logs" / "other.log").write_text("the script's own")

    assert clean_jobs(Job.objects.all(), dry_run=True) == Swept(1, 2, 20)
    assert Path(ended.stdout_path).exists()
    assert clean_jobs(Job.objects.all()) == Swept(1, 2, 20)

    assert not (Path(ended.job_folder) / ended.token).exists()
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == ["other.log", "tomogram.mrc"]
    assert Path("/etc/hosts").exists()
    assert clean_jobs(Job.objects.all()) == Swept()


@pytest.mark.parametrize("change", [{"final_handled": False}, {"state": "running", "ended_at": None}])
def test_what_is_still_needed_stays(change: dict[str, object], ended: Job) -> None:
    Job.objects.filter(pk=ended.pk).update(**change)
    assert clean_jobs(Job.objects.all()) == Swept()


def test_what_lies_on_another_host_is_left_to_that(ended: Job, target: Target) -> None:
    Target.objects.update(host="elsewhere")
    assert clean_jobs(Job.objects.all()) == Swept()


def test_a_log_without_the_token_in_its_name_is_not_ours(ended: Job, tmp_path: Path) -> None:
    (tmp_path / "all.log").write_text("of many jobs")
    Job.objects.filter(pk=ended.pk).update(stdout_path=str(tmp_path / "all.log"))
    assert clean_jobs(Job.objects.all()) == Swept(1, 1, 15)
    assert (tmp_path / "all.log").exists()


def test_folders_that_no_job_knows_are_told(ended: Job, target: Target) -> None:
    stranger = Path(target.job_folder) / f"j{'0' * 24}x"
    stranger.mkdir()
    (Path(target.job_folder) / "notes").mkdir()
    assert list(unknown_folders(Target.objects.all())) == [str(stranger)]
    assert stranger.exists()
