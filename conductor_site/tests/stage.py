"""A real `conduct` in its own process, on a database and folders of its own."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from conductor_site.tests.stores import Store, new_store

ROOT = Path(__file__).resolve().parents[2]

LONG_S = 60.0  # patience with a busy machine: costs nothing where a test passes

HERE = "/STAGE"  # stands for the stage's folder in the rows that each stage copies

# Plans one job by the real service; what the tests plan are copies of its row.
PLAN = f"""
import uuid, django; django.setup()
from django.db import transaction
from jobs.hosts import this_host
from jobs.models import Target
from jobs.services import Resources, plan_job
from record.models import Lab
from record.services import Subject
lab = Lab.objects.create(name="Lab", slug="lab")
target = Target.objects.create(lab=lab, name="here", host=this_host(), roots=["{HERE}"], job_folder="{HERE}/jobs")
with transaction.atomic():
    plan_job(target=target, name="job", subject=Subject("test", uuid.uuid4(), "test"), script="", script_name="work.sh",
        work_dir="{HERE}", environment={{}}, purpose="work", step=0, attempt=1, on_final="",
        resources=Resources(60, 1024))
"""


def make_template(folder: Path, store: Store | None = None) -> Store:
    """A database with one lab, one target and one planned job, to be copied for each stage."""
    store = store or new_store(folder)
    environment = os.environ | store.environment
    environment |= {"CONDUCTOR_DATA": str(folder), "DJANGO_SETTINGS_MODULE": "conductor_site.settings"}
    subprocess.run(
        [sys.executable, "manage.py", "migrate", "-v", "0", "--skip-checks"], cwd=ROOT, env=environment, check=True
    )
    subprocess.run([sys.executable, "-c", PLAN], cwd=ROOT, env=environment | {"PYTHONPATH": str(ROOT)}, check=True)
    return store


class Stage:
    """Starts, kills and stalls `conduct`; plans jobs; looks into the database from outside."""

    def __init__(self, folder: Path, store: Store) -> None:
        self.folder = folder
        self.store = store
        self.environment = (
            os.environ
            | store.environment
            | {
                "CONDUCTOR_DATA": str(folder / "var"),
                "DJANGO_SETTINGS_MODULE": "conductor_site.settings",
                "CONDUCTOR_JOB_GRACE_S": "1",
                "CONDUCTOR_JOB_CLAIM_LEASE_S": "1",
                "PYTHONPATH": str(ROOT),
            }
        )
        self.conducts: list[subprocess.Popen[bytes]] = []
        with self.connection() as connection:
            self.template: dict[str, Any] = dict(connection.execute("select * from jobs_job").fetchone())
            connection.execute("delete from jobs_job")
            connection.execute("delete from record_event")
            place = str(folder / "work")
            connection.execute("update jobs_target set roots = ?, job_folder = ?", [f'["{place}"]', f"{place}/jobs"])
        self.log = open(folder / "conduct.log", "ab")  # noqa: SIM115 - closed in close()

    def plan(self, body: str, *, count: int = 1, **columns: Any) -> list[str]:
        """Plan a job, or `count` of them: rows as the service writes them, with this bash text and these columns.

        Answers their tokens.
        """
        tokens = []
        with self.connection() as connection:
            for _ in range(count):
                row = self.template | {"script": f"#!/bin/bash\n{body}\n", "uuid": uuid4().hex} | columns
                tokens.append(self._insert(connection, row))
        return tokens

    def _insert(self, connection: Any, row: dict[str, Any]) -> str:
        del row["id"]
        row = {name: json.dumps(value) if isinstance(value, dict | list) else value for name, value in row.items()}
        token = f"j{uuid4().hex[:24]}x"
        values = [
            value.replace(self.template["token"], token).replace(HERE, str(self.folder / "work"))
            if isinstance(value, str)
            else value
            for value in row.values()
        ]
        marks = ", ".join("?" * len(row))
        connection.execute(f"insert into jobs_job ({', '.join(row)}) values ({marks})", values)  # noqa: S608
        return token

    def connection(self) -> Any:
        """The database, from outside."""
        return self.store.connection()

    def conduct(
        self,
        *,
        fault: str = "",
        data: str = "var",
        options: tuple[str, ...] = ("--without-cluster",),
        within: tuple[str, ...] = (),
        environment: dict[str, str] | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start one. Another `data` folder makes it another installation on the same database.

        `within` is a command that becomes it (such as unshare), `environment` goes over the stage's own.
        """
        process = subprocess.Popen(
            [*within, sys.executable, "manage.py", "conduct", *options],
            env=self.environment
            | {"CONDUCTOR_DATA": str(self.folder / data)}
            | ({"CONDUCTOR_FAULT": fault} if fault else {})
            | (environment or {}),
            cwd=ROOT,
            stderr=self.log,
            stdout=self.log,
        )
        self.conducts.append(process)
        return process

    def rows(self, query: str = "select * from jobs_job order by id") -> list[dict[str, Any]]:
        with self.connection() as connection:
            return [dict(row) for row in connection.execute(query)]

    def job(self) -> dict[str, Any]:
        """The only job."""
        (row,) = self.rows()
        return row

    def execute(self, statement: str) -> None:
        with self.connection() as connection:
            connection.execute(statement)

    def events(self) -> list[str]:
        return [row["kind"] for row in self.rows("select kind from record_event order by id")]

    def until(self, holds: Callable[[], Any], *, within_s: float = LONG_S, what: str = "") -> Any:
        """Wait for something to hold; fails with the log where it doesn't."""
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            if answer := holds():
                return answer
            time.sleep(0.02)
        raise AssertionError(f"not within {within_s} s: {what}\n{self.rows()}\n{self.conduct_log()}")

    def until_state(self, state: str, *, within_s: float = LONG_S) -> dict[str, Any]:
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
        self._end_clusters()
        for row in self.rows():
            pid = (row["native_id"].split(":") + ["", ""])[1]
            if pid and Path(f"/proc/{pid}/environ").exists() and row["token"].encode() in _environ(pid):
                os.killpg(int(pid), signal.SIGKILL)
        self.log.close()

    def _end_clusters(self) -> None:
        """Task clusters outlive a `conduct` that was killed."""
        for note in self.folder.glob("*/cluster.json"):
            pid = json.loads(note.read_text())["identity"].split(":")[1]
            if str(self.folder).encode() in _environ(pid):
                with suppress(ProcessLookupError):
                    os.killpg(int(pid), signal.SIGKILL)


def _environ(pid: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""
