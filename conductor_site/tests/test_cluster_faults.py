"""Those who deal with a cluster are killed and stalled at random moments, on a real SLURM."""

import random
import time
from collections import Counter
from pathlib import Path

import pytest

from conductor_site.tests.drivers import Drivers, use_cluster
from conductor_site.tests.stage import Stage
from jobs.tests.cluster.slurm import SlurmCluster

pytestmark = pytest.mark.slow
JOBS = 16
KILLS = 6  # make test-faults has many more
LIMIT_S = 150


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


def all_ended(stage: Stage) -> bool:
    return not stage.rows("select 1 from jobs_job where ended_at is null")


def test_a_real_conduct_sees_a_job_through(stage: Stage, plain_slurm: SlurmCluster) -> None:
    """With its task cluster: nudged, taken up, followed, ended."""
    use_cluster(stage, plain_slurm)
    stage.plan("echo ran >> ran")
    stage.conduct(options=())
    stage.until_state("succeeded", within_s=60)
    assert stage.lines() == ["ran"]
    assert Path(stage.job()["stdout_path"]).exists()
