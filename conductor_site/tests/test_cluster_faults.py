"""Those who deal with a cluster are killed and stalled at random moments, on a real SLURM."""

import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from conductor_site.tests.stage import ROOT, Stage
from jobs.tests.cluster.slurm import SlurmCluster

pytestmark = pytest.mark.slow
JOBS = 24
KILLS = 10
LIMIT_S = 150

DRIVER = """
import time, django; django.setup()
from jobs.clusters import drive_cluster
from jobs.models import ClusterWatch
while True:
    drive_cluster(1)
    ClusterWatch.objects.update(poll_due_at=None)
    time.sleep(0.05)
"""


class Drivers:
    """Processes that deal with the stage's cluster, as workers of a task cluster would."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.alive: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        self.alive.append(
            subprocess.Popen(
                [sys.executable, "-c", DRIVER],
                cwd=ROOT,
                env=self.stage.environment,
                stdout=self.stage.log,
                stderr=self.stage.log,
            )  # fmt: skip
        )

    def hurt(self, chance: random.Random) -> None:
        """Kill one, or stall it for longer than its successor needs to take over."""
        victim = chance.choice(self.alive)
        if chance.random() < 0.3:
            victim.send_signal(signal.SIGSTOP)
            time.sleep(1.5)
            victim.send_signal(signal.SIGCONT)
            return
        victim.kill()
        victim.wait()
        self.alive.remove(victim)
        self.start()

    def stop(self) -> None:
        for driver in self.alive:
            driver.send_signal(signal.SIGCONT)
            driver.kill()
            driver.wait()


def test_no_job_is_lost_or_run_twice(stage: Stage, slurm: SlurmCluster) -> None:
    use_cluster(stage, slurm)
    stage.plan('echo "$CONDUCTOR_TOKEN" >> ran', count=JOBS)
    drivers = Drivers(stage)
    chance = random.Random(7)  # noqa: S311 - the same moments each time
    drivers.start()
    drivers.start()
    try:
        for _ in range(KILLS):
            time.sleep(chance.uniform(1.0, 3.5))
            drivers.hurt(chance)
        stage.until(lambda: all_ended(stage), within_s=LIMIT_S, what="all jobs have ended")
    finally:
        drivers.stop()

    ran = Counter(stage.lines())
    rows = stage.rows("select token, state, exit_code, generation from jobs_job")
    assert {row["state"] for row in rows} == {"succeeded"}
    assert ran == Counter(row["token"] for row in rows)


def use_cluster(stage: Stage, slurm: SlurmCluster) -> None:
    """Make the stage's target one of the kind slurm."""
    columns = {
        "target_id": 1, "shell": "local", "conf_path": slurm.env["SLURM_CONF"], "poll_floor_s": 1, "poll_ceiling_s": 2,
        "look_up_wait_s": 3, "agree_s": 2, "lost_after_s": 60, "ssh_port": 0, "ssh_by_person": False, "requeue": False,
    } | dict.fromkeys(
        ["ssh_host", "ssh_config", "ssh_identity", "ssh_known_hosts", "python", "partition", "account", "qos", "gres",
         "constraint", "nodes", "memory", "cluster_name", "commands_folder"], "",
    )  # fmt: skip
    with stage.connection() as connection:
        connection.execute("update jobs_target set kind = 'slurm', slots = 6")
        names = ", ".join(f'"{name}"' for name in columns)
        marks = ", ".join("?" * len(columns))
        connection.execute(f"insert into jobs_cluster ({names}) values ({marks})", list(columns.values()))  # noqa: S608
    (stage.folder / "work" / "jobs").mkdir(exist_ok=True)


def all_ended(stage: Stage) -> bool:
    return not stage.rows("select 1 from jobs_job where ended_at is null")


def test_a_real_conduct_sees_a_job_through(stage: Stage, plain_slurm: SlurmCluster) -> None:
    """With its task cluster: nudged, taken up, followed, ended."""
    use_cluster(stage, plain_slurm)
    stage.plan("echo ran >> ran")
    stage.conduct(options=())
    began = time.monotonic()
    stage.until_state("succeeded", within_s=60)
    assert stage.lines() == ["ran"]
    assert time.monotonic() - began < 60
    assert Path(stage.job()["stdout_path"]).exists()
