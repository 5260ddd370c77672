"""The units of deploy/ under a real systemd: they start, jobs outlive a restart, and what falls over comes back."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from conductor_site.tests.private_systemd import PrivateSystemd, why_not

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif("DATABASE_URL" in os.environ, reason="the installation brings a database of its own"),
]

PLAN = """
import uuid
from django.db import transaction
from jobs.hosts import this_host
from jobs.models import Target
from jobs.services import Resources, plan_job
from record.models import Lab
from record.services import Subject
lab = Lab.objects.create(name="Lab", slug="lab")
target = Target.objects.create(lab=lab, name="here", host=this_host(), roots=["/srv/work"], job_folder="/srv/work/jobs")
with transaction.atomic():
    plan_job(target=target, name="job", subject=Subject("test", uuid.uuid4(), "test"), script_name="work.sh",
        script="#!/bin/bash\\necho $$ >> ran; while [ ! -e go ]; do sleep 0.1; done\\n",
        work_dir="/srv/work", environment={}, purpose="work", step=0, attempt=1, on_final="",
        resources=Resources(600, 256))
"""
KILL = ["kill", "--kill-whom=main", "--signal=KILL"]
STATE = "from jobs.models import Job; print('state', Job.objects.get().state)"


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[PrivateSystemd]:
    if why := why_not():
        pytest.skip(why)
    before = traces()
    systemd = PrivateSystemd(tmp_path)
    try:
        if not systemd.is_up():
            pytest.skip(f"no systemd of one's own can be started here: {systemd.told()[-300:]}")
        yield systemd
    finally:
        systemd.stop()
    assert traces() <= before, "it left something on the machine itself"


def traces() -> set[tuple[str, float]]:
    """What a systemd with our units would leave on the machine: when timers went off, private folders for /tmp."""
    patterns = ("var/lib/systemd/timers/stamp-conductor-*", "tmp/systemd-private-*-conductor-*",
                "var/tmp/systemd-private-*-conductor-*")  # fmt: skip
    return {(str(path), path.stat().st_mtime) for pattern in patterns for path in Path("/").glob(pattern)}


def health(systemd: PrivateSystemd) -> dict[str, object]:
    """As docs/operating.md asks for it on the machine itself."""
    asked = systemd.run(
        "curl", "--silent", "--unix-socket", "/run/conductor/web.sock", "http://localhost/healthz", fails=None
    )
    return dict(json.loads(asked)) if asked.startswith("{") else {}


def come_back(systemd: PrivateSystemd, unit: str, how: list[str]) -> None:
    """Do this to the unit, and wait for its next main process."""
    before = systemd.shown(unit, "MainPID")
    systemd.run("systemctl", *how, unit)
    systemd.until(lambda: systemd.shown(unit, "MainPID") not in ("0", before), f"{unit} after {how}")


def test_an_installation_under_systemd(systemd: PrivateSystemd) -> None:
    systemd.conductor("migrate", "-v", "0")
    systemd.conductor("collectstatic", "--noinput", "-v", "0")
    systemd.run("systemctl", "start", "conductor-web", "conductor-conduct", "conductor-backup.timer")
    systemd.until(lambda: health(systemd).get("ok"), "web server, conduct and task workers")
    assert systemd.run("stat", "-c", "%a %U", "/run/conductor").split() == ["750", "conductor"]

    systemd.conductor("shell", "-v", "0", "-c", PLAN)
    systemd.until(lambda: systemd.run("cat", "/srv/work/ran", fails=None).strip().isdigit(), "the job")
    (job,) = systemd.run("cat", "/srv/work/ran").split()

    for unit, how in (("conductor-conduct", ["restart"]), ("conductor-conduct", KILL), ("conductor-web", KILL)):
        come_back(systemd, unit, how)
        assert systemd.run("cat", f"/proc/{job}/comm").strip() in ("bash", "work.sh")
    systemd.until(lambda: health(systemd).get("ok"), "all of them again")

    systemd.run("touch", "/srv/work/go")
    systemd.until(lambda: "state succeeded" in systemd.conductor("shell", "-v", "0", "-c", STATE), "the job's end")
    assert systemd.run("cat", "/srv/work/ran").split() == [job]

    for unit in ("conductor-backup", "conductor-clean"):
        systemd.run("systemctl", "start", unit)
        assert systemd.shown(unit, "Result") == "success"
    assert "manifest.json" in systemd.run("ls", "-R", "/srv/backup/conductor")
    assert systemd.shown("conductor-backup.timer", "ActiveState") == "active"
    systemd.run("systemctl", "stop", "conductor-web", "conductor-conduct")
    assert systemd.shown("conductor-web", "Result") == systemd.shown("conductor-conduct", "Result") == "success"
