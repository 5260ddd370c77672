"""Token folders and logs of ended jobs are cleared away; nothing else is."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from django.utils import timezone

from jobs.cleaning import Swept, clean_jobs, unknown_folders
from jobs.hosts import this_host
from jobs.models import Cluster, Job, Target
from jobs.tests.cluster.sshd import SshServer
from record.errors import AdapterError
from record.models import Lab

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
    assert unknown_folders(target) == [str(stranger)]
    assert stranger.exists()
    Target.objects.update(host="elsewhere")
    assert unknown_folders(Target.objects.get()) == []


def test_what_can_not_be_removed_is_told_and_stops_no_other(
    ended: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "rm").write_text(f"""#!/bin/bash
case $3 in */{ended.token}) echo "rm: cannot remove '$3': Device or resource busy" >&2; exit 1;; esac
exec /bin/rm "$@"
""")
    (programs / "rm").chmod(0o755)
    monkeypatch.setattr("jobs.cleaning.SYSTEM_PATH", f"{programs}:/usr/bin:/bin")
    (failed,) = (swept := clean_jobs(Job.objects.all())).failed
    assert failed == f"cannot remove '{ended.job_folder}/{ended.token}': Device or resource busy"
    assert (swept.folders, swept.logs) == (0, 2)


def test_many_are_removed_in_batches(plan: Callable[..., Job], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobs.cleaning.BATCH", 2)
    for _ in range(5):
        leave(plan())
    Job.objects.update(state="succeeded", ended_at=timezone.now(), final_handled=True)
    assert clean_jobs(Job.objects.all()) == Swept(5, 10, 100)


def test_a_cluster_that_can_not_be_reached_is_left_and_the_others_are_cleaned(
    ended: Job, lab: Lab, plan: Callable[..., Job], tmp_path: Path
) -> None:
    away = Target.objects.create(
        lab=lab, name="away", kind="slurm", host=this_host(), roots=[str(tmp_path)], job_folder=str(tmp_path / "jobs")
    )
    config = tmp_path / "ssh_config"
    config.write_text("Host nowhere\n  ProxyCommand /bin/false\n")
    Cluster.objects.create(**{"target": away, "shell": "ssh", "ssh_host": "nowhere", "ssh_config": str(config)})
    plan(target=away)
    Job.objects.update(state="succeeded", ended_at=timezone.now(), final_handled=True)

    swept = clean_jobs(Job.objects.all())

    assert (swept.folders, swept.logs, list(swept.left)) == (1, 2, [away.pk])
    assert swept.left[away.pk].startswith("Target away was left as it is: The connection to nowhere failed")
    with pytest.raises(AdapterError):
        unknown_folders(away)


@pytest.mark.slow
def test_at_a_cluster_over_ssh(plan: Callable[..., Job], target: Target, ssh_server: SshServer, tmp_path: Path) -> None:
    there = ssh_server.home / tmp_path.name
    Target.objects.update(kind="slurm", job_folder=str(there / "jobs"))
    how = {"shell": "ssh", "ssh_host": "cluster", "ssh_config": str(ssh_server.config)}
    Cluster.objects.create(target=target, ssh_known_hosts=str(ssh_server.known_hosts), **how)
    job = plan(target=Target.objects.get())
    job.job_folder, log = str(there / "jobs"), there / f"{job.token}.out"
    Job.objects.filter(pk=job.pk).update(
        state="succeeded", ended_at=timezone.now(), final_handled=True, job_folder=job.job_folder, stdout_path=str(log)
    )
    leave(job)
    log.write_text("said")
    stranger = there / "jobs" / f"j{'0' * 24}x"
    stranger.mkdir()
    subprocess.run(["chown", "-R", ssh_server.user, str(there)], check=True)

    assert clean_jobs(Job.objects.all(), dry_run=True) == Swept(1, 1, 14)
    assert clean_jobs(Job.objects.all()) == Swept(1, 1, 14)
    assert not log.exists() and not (there / "jobs" / job.token).exists()
    assert unknown_folders(Target.objects.get()) == [str(stranger)]
