"""The task cluster under `conduct`: mended when it hangs, left alone when it is busy, gone when it should be."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from conductor_site.tests.stage import LONG_S, ROOT, Stage

pytestmark = pytest.mark.slow


@pytest.fixture
def stage(stage: Stage) -> Stage:
    """A stage whose cluster has one worker and counts as hung after 6 s."""
    stage.environment |= {"CONDUCTOR_CLUSTER_HUNG_AFTER_S": "6", "CONDUCTOR_Q_WORKERS": "1"}
    return stage


def note(stage: Stage) -> dict[str, Any]:
    path = stage.folder / "var" / "cluster.json"
    return json.loads(path.read_text()) if path.exists() else {}


def members(stage: Stage, name: str) -> list[int]:
    """Processes of the cluster of that name."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and f"CONDUCTOR_CLUSTER={name}".encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def beats(stage: Stage) -> list[str]:
    return [str(row["beat_at"]) for row in stage.rows("select beat_at from jobs_pulse where beat_at is not null")]


def a_beat(stage: Stage) -> list[str]:
    return stage.until(lambda: beats(stage), what="a pulse")


def test_a_cluster_hung_by_a_killed_idle_worker_is_mended(stage: Stage) -> None:
    conduct = stage.conduct(options=())
    a_beat(stage)
    first = note(stage)
    worker = idle_worker(stage)

    os.kill(worker, signal.SIGKILL)

    stage.until(lambda: note(stage) != first, what="a new cluster")
    assert "took no task for" in stage.conduct_log()
    old_beats = beats(stage)
    stage.until(lambda: beats(stage) != old_beats, what="a pulse of the new one")
    assert stage.events() == ["cluster.hung"]
    assert len(stage.rows("select id from django_q_schedule")) == 1
    conduct.send_signal(signal.SIGTERM)
    assert conduct.wait(LONG_S) == 0
    assert members(stage, first["name"]) == []


def test_a_busy_cluster_is_never_killed(stage: Stage) -> None:
    stage.conduct(options=())
    a_beat(stage)
    first = note(stage)
    code = "import django; django.setup(); from django_q.tasks import async_task; async_task('time.sleep', 10)"
    subprocess.run([sys.executable, "-c", code], env=stage.environment, cwd=ROOT, check=True)
    folder = stage.folder / "var" / "busy"
    stage.until(lambda: folder.exists() and any(folder.iterdir()), what="busy")

    time.sleep(8)

    assert note(stage) == first
    assert "took no task for" not in stage.conduct_log()
    old_beats = beats(stage)
    stage.until(lambda: beats(stage) != old_beats, what="a pulse after the long task")
    assert note(stage) == first


def test_a_killed_predecessors_cluster_is_ended_first(stage: Stage) -> None:
    first = stage.conduct(options=())
    a_beat(stage)
    orphaned = note(stage)["name"]
    first.kill()
    first.wait()
    assert members(stage, orphaned)

    second = stage.conduct(options=())

    stage.until(lambda: note(stage)["name"] != orphaned, what="the new cluster")
    assert members(stage, orphaned) == []
    second.send_signal(signal.SIGTERM)
    assert second.wait(LONG_S) == 0
    assert members(stage, note(stage)["name"]) == []


@pytest.mark.skipif("DATABASE_URL" in os.environ, reason="only SQLite is locked as a whole")
def test_a_locked_database_or_a_full_disk_keeps_no_conduct_from_starting(stage: Stage) -> None:
    stage.environment["CONDUCTOR_SQLITE_TIMEOUT_S"] = "1"
    first = stage.conduct(options=())
    a_beat(stage)
    first.kill()
    first.wait()
    orphaned = note(stage)["name"]
    path = stage.folder / "var" / "cluster.json"
    stage.plan("echo ran >> ran")
    with stage.connection() as connection:
        connection.execute("begin immediate")
        second = stage.conduct(options=())
        stage.until(lambda: note(stage)["name"] != orphaned, what="a cluster that is not known to the database")
    second.kill()
    second.wait()
    path.rename(path.with_suffix(".kept"))
    path.mkdir()  # nothing can be written there

    third = stage.conduct(options=())

    stage.until(lambda: "no task cluster:" in stage.conduct_log(), what="words")
    stage.until_state("succeeded")
    assert third.poll() is None
    path.rmdir()
    path.with_suffix(".kept").rename(path)  # for the stage, which ends what second left


def test_two_hosts_on_one_database_have_each_their_own_cluster(stage: Stage) -> None:
    for host in ("first", "second"):
        stage.environment["CONDUCTOR_HOST_NAME"] = host
        stage.conduct(data=host, options=())
    stage.until(lambda: len(beats(stage)) == 2, within_s=30, what="a pulse of each")

    time.sleep(9)  # longer than a cluster may leave its pulses untaken

    names = {row["cluster"].split(":")[0] for row in stage.rows("select cluster from jobs_pulse")}
    assert names == {"first", "second"}
    assert "took no task for" not in stage.conduct_log()
    queues = [row["cluster"] for row in stage.rows("select cluster from django_q_schedule order by cluster")]
    assert [queue.split(":")[0] for queue in queues] == ["first", "second"]


def idle_worker(stage: Stage) -> int:
    """The worker: the process that logged that it is ready for work."""
    ready = [line for line in stage.conduct_log().splitlines() if "ready for work at" in line]
    return int(ready[-1].rsplit(" ", 1)[1])
