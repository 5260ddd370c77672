"""Processes that deal with a stage's cluster as workers of a task cluster would, and what makes its target one."""

import random
import signal
import subprocess
import sys
import time
from typing import Any

from conductor_site.tests.stage import ROOT, Stage
from jobs.tests.cluster.slurm import SlurmCluster

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


def use_cluster(stage: Stage, slurm: SlurmCluster, **wishes: Any) -> None:
    """Make the stage's target one of the kind slurm; `wishes` are columns of its cluster."""
    columns = {
        "target_id": 1, "shell": "local", "conf_path": slurm.env["SLURM_CONF"], "poll_floor_s": 1, "poll_ceiling_s": 2,
        "look_up_wait_s": 3, "agree_s": 2, "lost_after_s": 60, "ssh_port": 0, "ssh_by_person": False, "requeue": False,
    } | dict.fromkeys(
        ["ssh_host", "ssh_config", "ssh_identity", "ssh_known_hosts", "python", "partition", "account", "qos", "gres",
         "constraint", "nodes", "memory", "cluster_name", "commands_folder"], "",
    ) | wishes  # fmt: skip
    with stage.connection() as connection:
        connection.execute("update jobs_target set kind = 'slurm', slots = 6")
        names = ", ".join(f'"{name}"' for name in columns)
        marks = ", ".join("?" * len(columns))
        connection.execute(f"insert into jobs_cluster ({names}) values ({marks})", list(columns.values()))  # noqa: S608
    (stage.folder / "work" / "jobs").mkdir(exist_ok=True)
