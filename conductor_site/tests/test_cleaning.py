"""The commands that clear away, as they are called."""

from datetime import timedelta
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from conductor_site.tests.world import World, make_world
from jobs.models import Job
from record.models import Lab
from record.tests.factories import People
from runs.models import Run

pytestmark = pytest.mark.django_db


@pytest.fixture
def world(lab: Lab, people: People, tmp_path: Path) -> World:
    world = make_world(lab, people.operator, tmp_path)
    Job.objects.update(state="succeeded", ended_at=timezone.now(), final_handled=True)
    (tmp_path / "jobs" / world.job.token).mkdir()
    return world


def test_jobs_of_archived_runs_alone(world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("clean_jobs")
    assert "0 token folders" in capsys.readouterr().out
    Run.objects.filter(pk=world.run.pk).update(archived_at=timezone.now() - timedelta(days=31))
    call_command("clean_jobs", "--dry-run")
    assert "1 token folders and 0 logs with 0.0 MiB: would be removed." in capsys.readouterr().out
    call_command("clean_jobs", "--older-than-days", "40")
    assert (tmp_path / "jobs" / world.job.token).exists()
    call_command("clean_jobs")
    assert not (tmp_path / "jobs" / world.job.token).exists()


def test_evidence_and_events_of_a_lab_at_work_stay(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("clean_evidence")
    call_command("prune_events")
    assert capsys.readouterr().out == (
        "0 pieces of 0 undecided gates, 0 files with 0.0 MiB: removed.\n0 events of the mechanical log: removed.\n"
    )


@pytest.mark.parametrize("days", ["0", "-1", "soon"])
def test_a_horizon_that_cannot_be_meant_is_refused(days: str, db: None) -> None:
    with pytest.raises(CommandError, match="older-than-days"):
        call_command("clean_evidence", "--older-than-days", days)
