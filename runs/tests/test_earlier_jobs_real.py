"""A job that a lab submitted itself, on a real SLURM, followed to its end once its run is taken up."""

import json
from pathlib import Path

import pytest

from jobs.clusters import drive_cluster
from jobs.hosts import this_host
from jobs.models import Cluster, Job, Target
from jobs.tests.cluster.daemons import until
from jobs.tests.cluster.slurm import SlurmCluster
from runs.services.take_up import import_run_state
from runs.statefile.read import STATE_FILE
from runs.tests.factories import Bench, phase_of, write_two_phases

pytestmark = [pytest.mark.slow, pytest.mark.django_db]

SCRIPT = """#!/bin/bash
#SBATCH --time=00:05:00
#SBATCH --mem=100M
#SBATCH --output=logs/%x_%j.out
echo "submitted by the lab"
while [ ! -e go ]; do sleep 0.1; done
mkdir -p tomostar && echo x > tomostar/TS_001.tomostar
"""


def test_it_is_followed_to_its_end_and_not_submitted_again(
    bench: Bench, plain_slurm: SlurmCluster, tmp_path: Path
) -> None:
    folder = write_two_phases(bench.folder / "two")
    (folder / "scripts/import.slurm").write_text(SCRIPT)
    work = tmp_path / "lab"
    (work / "logs").mkdir(parents=True)
    said = plain_slurm.call("sbatch", "--parsable", f"--chdir={work}", str(folder / "scripts/import.slurm"))
    assert said is not None
    native_id = said.strip()
    state = {
        "schema_version": 1, "project": {"work_dir": str(work), "pipeline_conf": None, "species": []},
        "phases": {"1": {"status": "running", "job_ids": [native_id]}}, "checkpoints": [],
    }  # fmt: skip
    (work / STATE_FILE).write_text(json.dumps(state))
    target = Target.objects.create(
        lab=bench.lab, name="cluster", kind="slurm", host=this_host(), roots=[str(tmp_path)],
        job_folder=str(tmp_path / "cluster_jobs"),
    )  # fmt: skip
    Cluster.objects.create(
        target=target, conf_path=plain_slurm.env["SLURM_CONF"], poll_floor_s=1, poll_ceiling_s=1, lost_after_s=4
    )
    pipeline = bench.add_pipeline(folder, "two")
    run = import_run_state(
        author=bench.operator, pipeline=pipeline, target=target, path=f"{work}/{STATE_FILE}", name="taken up"
    )

    def job_is(state: str) -> bool:
        drive_cluster(target.pk)
        return Job.objects.filter(purpose="phase", state=state).exists()

    until(lambda: job_is("running"), within_s=60, what="it is followed")
    job = Job.objects.get(purpose="phase")
    assert (job.native_id, job.stdout_path) == (native_id, f"{work}/logs/import.slurm_{native_id}.out")
    assert phase_of(run, "1").state == "running"
    assert Path(job.stdout_path).read_text() == "submitted by the lab\n"

    (work / "go").touch()
    until(lambda: job_is("succeeded"), within_s=60, what="its end is known")
    until(lambda: job_is("succeeded") and phase_of(run, "1").state == "done", within_s=60, what="its phase is done")
    jobs = Job.objects.filter(purpose="phase", subject_uuid=phase_of(run, "1").uuid)
    assert jobs.get().pk == job.pk, "nothing was handed over again"
