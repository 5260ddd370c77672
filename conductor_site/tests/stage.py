"""A real `conduct` in its own process, on a database and folders of its own."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

# Plans one job on the target `here` (made at first use); prints its token.
PLAN = """
import json, sys, uuid, django; django.setup()
from django.db import transaction
from jobs.hosts import this_host
from jobs.models import Target
from jobs.services import Resources, plan_job
from record.models import Lab
from record.services import Subject
wanted = json.loads(sys.argv[1])
lab, _ = Lab.objects.get_or_create(name="Lab", slug="lab")
folder = wanted["folder"]
target, _ = Target.objects.get_or_create(lab=lab, name="here", defaults=dict(
    host=this_host(), roots=[folder], job_folder=folder + "/jobs", **wanted.get("target", {})))
for number in range(wanted.get("count", 1)):
    with transaction.atomic():
        job = plan_job(target=target, name=f"job {number}", subject=Subject("test", uuid.uuid4(), "test"),
            script=wanted["script"], script_name="work.sh", work_dir=folder, environment=wanted.get("environment", {}),
            purpose="work", step=number, attempt=1, on_final="",
            resources=Resources(wanted.get("time_limit_s", 60), wanted.get("memory_mib", 1024)))
    print(job.token)
"""


class Stage:
    """Starts, kills and stalls `conduct`; plans jobs; looks into the database from outside."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = os.environ | {
            "CONDUCTOR_DATA": str(folder / "var"),
            "DJANGO_SETTINGS_MODULE": "conductor_site.settings",
            "CONDUCTOR_JOB_GRACE_S": "1",
            "PYTHONPATH": str(ROOT),
        }
        self.conducts: list[subprocess.Popen[bytes]] = []
        self.log = open(folder / "conduct.log", "ab")  # noqa: SIM115 - closed in close()

    def python(self, code: str, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments], env=self.environment, cwd=ROOT, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def plan(self, script: str, **wanted: Any) -> list[str]:
        """Plan a job (or `count`); their tokens."""
        body = f"#!/bin/bash\n{script}\n"
        return self.python(PLAN, json.dumps(wanted | {"script": body, "folder": str(self.folder / "work")})).split()

    def conduct(self, *, fault: str = "", options: tuple[str, ...] = ("--without-cluster",)) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "manage.py", "conduct", *options],
            env=self.environment | ({"CONDUCTOR_FAULT": fault} if fault else {}),
            cwd=ROOT,
            stderr=self.log,
            stdout=self.log,
        )
        self.conducts.append(process)
        return process

    def rows(self, query: str = "select * from jobs_job order by id") -> list[dict[str, Any]]:
        with sqlite3.connect(self.folder / "var" / "conductor.sqlite3", timeout=10) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(query)]

    def job(self) -> dict[str, Any]:
        """The only job."""
        (row,) = self.rows()
        return row

    def execute(self, statement: str) -> None:
        with sqlite3.connect(self.folder / "var" / "conductor.sqlite3", timeout=10) as connection:
            connection.execute(statement)

    def until(self, holds: Callable[[], Any], *, within_s: float = 15, what: str = "") -> Any:
        """Wait for something to hold; fails with the log where it doesn't."""
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            if answer := holds():
                return answer
            time.sleep(0.02)
        raise AssertionError(f"not within {within_s} s: {what}\n{self.rows()}\n{self.conduct_log()}")

    def until_state(self, state: str, *, within_s: float = 15) -> dict[str, Any]:
        return self.until(lambda: self.job() if self.job()["state"] == state else None, within_s=within_s, what=state)

    def conduct_log(self) -> str:
        return (self.folder / "conduct.log").read_text(errors="replace")

    def lines(self) -> list[str]:
        """What the jobs' scripts appended to `work/ran`: one line an execution."""
        path = self.folder / "work" / "ran"
        return path.read_text().splitlines() if path.exists() else []

    def token_folder(self) -> Path:
        return self.folder / "work" / "jobs" / str(self.job()["token"])

    def close(self) -> None:
        for process in self.conducts:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()
        for row in self.rows():
            pid = (row["native_id"].split(":") + ["", ""])[1]
            if pid and Path(f"/proc/{pid}/environ").exists() and row["token"].encode() in _environ(pid):
                os.killpg(int(pid), signal.SIGKILL)
        self.log.close()


def _environ(pid: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""
