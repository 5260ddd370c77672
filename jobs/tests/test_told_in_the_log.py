"""Lines about a cluster and its jobs carry the target, the job and its run, so that all lines of one can be found."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobs.clusters import drive_cluster
from jobs.hosts import this_host
from jobs.models import Cluster, Job, Target
from record.errors import AdapterError
from record.tests.heard import heard

pytestmark = pytest.mark.django_db


@pytest.fixture
def job(plan: Callable[..., Job], target: Target, tmp_path: Path) -> Job:
    Target.objects.update(kind="slurm", host=this_host())
    Cluster.objects.create(target=target, commands_folder=str(tmp_path / "none"))
    return plan()


def failing(error: Exception) -> Callable[..., int]:
    def fail(*args: object) -> int:
        raise error

    return fail


def test_a_job_that_can_not_be_looked_after(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobs.submitting.Submitter.submit", failing(RuntimeError("it burst")))
    with heard("jobs.clusters") as lines:
        drive_cluster(job.target_id)
    keys = {"job": job.token, "run": str(job.root_uuid), "target": job.target.name}
    assert lines[0] == (f"job {job.token} could not be looked after; it is tried again", keys)


def test_a_cluster_that_can_not_be_asked(job: Job, monkeypatch: Any) -> None:
    away = AdapterError("The connection failed.", transient=True)
    monkeypatch.setattr("jobs.submitting.Submitter.submit", failing(away))
    with heard("jobs.clusters") as lines:
        drive_cluster(job.target_id)
    keys = {"target": job.target.name}
    assert lines == [(f"target {job.target.name} can't be asked (1 times in a row): The connection failed.", keys)]
