"""An upgrade with live jobs: nothing new is started, what runs outlives `conduct`, and all goes on afterwards."""

import signal
import subprocess
import sys

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from conductor_site.tests.stage import LONG_S, ROOT, Stage
from jobs.drain import begin_drain, draining
from record.models import Event, Lab
from record.tests.factories import People


def manage(stage: Stage, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env=stage.environment,
        capture_output=True,
        text=True,
        timeout=LONG_S,
    )


@pytest.mark.slow
def test_a_job_outlives_the_upgrade_and_the_next_one_waits_for_its_end(stage: Stage) -> None:
    stage.plan("echo first >> ran; while [ ! -e go ]; do sleep 0.05; done; echo done >> ran")
    before = stage.conduct()
    stage.until(stage.lines, what="the first job")
    drained = manage(stage, "drain", "--reason", "upgrade")
    assert drained.returncode == 0, drained.stderr
    assert "1 jobs run on" in drained.stdout
    stage.plan("echo second >> ran")
    before.send_signal(signal.SIGTERM)
    assert before.wait(LONG_S) == 0

    stage.conduct()
    (stage.folder / "work" / "go").touch()
    stage.until(lambda: stage.rows()[0]["state"] == "succeeded", what="the end of the first job")
    idle = manage(stage, "drain", "--until-idle")

    assert "jobs run on" not in idle.stdout
    assert [row["state"] for row in stage.rows()] == ["succeeded", "planned"]
    assert manage(stage, "resume").stdout == "Work goes on.\n"
    stage.until(lambda: stage.rows()[1]["state"] == "succeeded", what="the second job")
    assert stage.lines() == ["first", "done", "second"]


def test_people_are_told_on_the_home_page(client: Client, people: People) -> None:
    begin_drain(reason="the cluster moves house")
    client.force_login(people.viewer)
    assert "the cluster moves house" in client.get(reverse("home")).content.decode()


def test_resuming_is_told_once(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("drain", reason="upgrade")
    call_command("resume")
    call_command("resume")
    assert capsys.readouterr().out.endswith("Work goes on.\nNothing was being drained.\n")
    kinds = Event.objects.filter(lab=lab).order_by("id").values_list("kind", flat=True)
    assert list(kinds) == ["installation.drain", "installation.resume"]


@pytest.mark.parametrize("seconds", ["nan", "-1", "soon"])
def test_a_time_that_never_ends_is_refused(seconds: str, db: None) -> None:
    with pytest.raises(CommandError, match="timeout-s"):
        call_command("drain", "--timeout-s", seconds)
    assert draining() is None
