"""`conduct` on PostgreSQL: word from other hosts, connections that are cut, a database that is away."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest

from conductor_site.tests.postgresql import Server, running_server
from conductor_site.tests.stage import ROOT, Stage
from conductor_site.tests.stores import PostgresqlStore, Store

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif("DATABASE_URL" not in os.environ, reason="needs PostgreSQL: make test-postgresql"),
]

# Plans jobs by the real service in a process of another installation, whose datagrams reach nobody here.
PLAN_ELSEWHERE = """
import sys, time, uuid, django; django.setup()
from django.db import transaction
from jobs.models import Target
from jobs.services import Resources, plan_job
from record.services import Subject
for pause_s in (0.33, 0.47, 0.61, 0.75, 0.89):
    time.sleep(pause_s)
    target = Target.objects.get()
    with transaction.atomic():
        plan_job(target=target, name="job", subject=Subject("test", uuid.uuid4(), "test"), script="#!/bin/bash\\n",
            script_name="work.sh", work_dir=target.roots[0], environment={}, purpose="work", step=0, attempt=1,
            on_final="", resources=Resources(60, 1024))
"""


# Of this database only: other tests work on the same server.
CUT_ALL = """
    select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and application_name = 'conductor'
"""


def plan_elsewhere(stage: Stage) -> list[float]:
    """Plan five jobs from another installation; how long each took from the plan to its start, in seconds."""
    before = len(stage.rows())
    environment = stage.environment | {"CONDUCTOR_DATA": str(stage.folder / "elsewhere")}
    subprocess.run([sys.executable, "-c", PLAN_ELSEWHERE], env=environment, cwd=ROOT, check=True)
    stage.until(lambda: all(row["ended_at"] for row in stage.rows()), what="the ends")
    return [(row["started_at"] - row["planned_at"]).total_seconds() for row in stage.rows()[before:]]


def listeners(stage: Stage) -> list[int]:
    """Server processes of this database's connections that listen."""
    query = "select pid from pg_stat_activity where datname = current_database() and query like 'LISTEN%'"
    return [row["pid"] for row in stage.rows(query)]


def test_word_from_another_host_comes_at_once_and_again_after_its_connection_was_cut(stage: Stage) -> None:
    stage.conduct()
    (first,) = stage.until(lambda: listeners(stage), what="it listens")
    assert median(plan_elsewhere(stage)) < 0.4  # ticks alone: half a second

    stage.rows(f"select pg_terminate_backend({first})")

    stage.until(lambda: listeners(stage) not in ([], [first]), what="it listens again")
    assert "not listening for word from other hosts" in stage.conduct_log()
    assert median(plan_elsewhere(stage)) < 0.4


def test_every_connection_cut_at_once_is_got_over(stage: Stage) -> None:
    stage.plan("echo ran >> ran; until [ -e go ]; do sleep 0.02; done")
    conduct = stage.conduct()
    stage.until(stage.lines, what="it runs")

    for _ in range(5):
        stage.rows(CUT_ALL)
        time.sleep(0.3)
    (stage.folder / "work" / "go").touch()

    stage.until_state("succeeded")
    assert stage.lines() == ["ran"] and conduct.poll() is None


@pytest.fixture
def server() -> Iterator[Server]:
    with running_server() as server:
        yield server


@pytest.fixture
def own_stage(server: Server, migrated_database: Store, tmp_path: Path) -> Iterator[Stage]:
    """A stage whose database lies on a server of its own."""
    assert isinstance(migrated_database, PostgresqlStore)
    server.create("stage")
    dump = ["pg_dump", "--no-owner", "--dbname", migrated_database.url]
    with subprocess.Popen(dump, stdout=subprocess.PIPE) as dumped:
        subprocess.run(["psql", "-qX", "-v", "ON_ERROR_STOP=1", server.url("stage")], stdin=dumped.stdout, check=True,
                       stdout=subprocess.DEVNULL)  # fmt: skip
    for name in ("work", "var"):
        (tmp_path / name).mkdir()
    stage = Stage(tmp_path, PostgresqlStore(server.url("stage"), "stage"))
    # The cluster's pusher rests for 10 s after a failure and is started anew within 5: that is no reason to kill it.
    stage.environment |= {"CONDUCTOR_CLUSTER_HUNG_AFTER_S": "30", "CONDUCTOR_Q_WORKERS": "1"}
    yield stage
    server.start()
    stage.close()


@pytest.mark.parametrize(("mode", "away_s"), [("fast", 30), ("immediate", 5)])
def test_a_database_that_is_away_is_waited_for(own_stage: Stage, server: Server, mode: str, away_s: float) -> None:
    """`conduct`, its cluster and the jobs live through it; what ended meanwhile is written down afterwards, once."""
    own_stage.plan("echo ran >> ran; until [ -e go ]; do sleep 0.02; done; exit 3")
    own_stage.plan("echo ran >> ran; until [ -e go ]; do sleep 0.02; done")
    conduct = own_stage.conduct(options=())
    own_stage.until(lambda: len(own_stage.lines()) == 2, what="both run")
    own_stage.until(lambda: {row["state"] for row in own_stage.rows()} == {"running"}, what="recorded")
    own_stage.until(lambda: beats(own_stage), within_s=20, what="a pulse")
    cluster = (own_stage.folder / "var" / "cluster.json").read_text()

    server.stop(mode)
    (own_stage.folder / "work" / "go").touch()
    time.sleep(away_s)
    assert conduct.poll() is None
    server.start()

    own_stage.until(lambda: all(row["ended_at"] for row in own_stage.rows()), what="the ends")
    assert [(row["state"], row["exit_code"]) for row in own_stage.rows()] == [("failed", 3), ("succeeded", 0)]
    assert own_stage.lines() == ["ran", "ran"]
    before = beats(own_stage)
    own_stage.until(lambda: beats(own_stage) != before, within_s=30, what="a pulse of the same cluster")
    assert (own_stage.folder / "var" / "cluster.json").read_text() == cluster
    assert sorted(own_stage.events()).count("job.succeed") == 1
    conduct.send_signal(signal.SIGTERM)
    assert conduct.wait(25) == 0


def beats(stage: Stage) -> list[str]:
    return [str(row["beat_at"]) for row in stage.rows("select beat_at from jobs_pulse where beat_at is not null")]
