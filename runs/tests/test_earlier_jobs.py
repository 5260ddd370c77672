"""Jobs that were handed over before a run was taken up are followed to their end, and never handed over again."""

from datetime import timedelta
from pathlib import Path

import pytest
import time_machine
from django.utils import timezone

from jobs.executors.slurm.client import Slurm
from jobs.following import Follower, name_of
from jobs.hosts import this_host
from jobs.models import Cluster, Job, Target
from jobs.services import handle_final
from jobs.shells import cluster_of, shell_for
from record.errors import AdapterError
from record.models import Event
from runs.models import Phase, Run
from runs.services.by_outputs import settle_end
from runs.services.export import state_now
from runs.services.launch import start_phase
from runs.tests.factories import Bench, phase_of, states

NOTICE = "Job 4712, 4713, handed over before the run was taken up, is still at cluster"
RUNNING = "4712|4712|N/A|RUNNING|None|2026-11-30T09:00:00|2026-11-30T09:00:05|N/A|import.slurm"


@pytest.fixture
def commands(tmp_path: Path) -> Path:
    """The cluster's commands, as shell scripts: its queue is empty, and its accounts know nothing."""
    folder = tmp_path / "commands"
    folder.mkdir()
    for name in ("squeue", "sacct", "sinfo", "scontrol", "sbatch", "scancel"):
        (folder / name).write_text("#!/bin/bash\nexit 0\n")
        (folder / name).chmod(0o755)
    return folder


@pytest.fixture
def run(bench: Bench, commands: Path) -> Run:
    """A run at a cluster whose first phase had been handed over as job 4712, and whose outputs are there."""
    target = Target.objects.create(
        lab=bench.lab, name="cluster", kind="slurm", host=this_host(), roots=[str(bench.folder)],
        job_folder=str(bench.folder / "cluster_jobs"),
    )  # fmt: skip
    Cluster.objects.create(target=target, commands_folder=str(commands))
    run = bench.begin(target=target, species=["alpha"])
    Phase.objects.filter(run=run, key="1").update(on_disk=True, awaited_ids=["4712"])
    folder = Path(run.work_dir) / "tomostar"
    folder.mkdir()
    (folder / "TS_001.tomostar").write_text("x")
    return run


def queue(commands: Path, line: str) -> None:
    (commands / "squeue").write_text(f"#!/bin/bash\necho '{line}'\n" if line else "#!/bin/bash\n")


def follow(job: Job) -> None:
    """Ask the cluster once after the job, and do what follows."""
    job.refresh_from_db()
    target = Target.objects.get(pk=job.target_id)
    cluster = cluster_of(target)
    Follower(target, cluster, Slurm(shell_for(target), cluster.site())).follow([job])
    job.refresh_from_db()
    if job.is_final:
        handle_final(job)


def test_one_that_still_runs_is_followed_to_its_end(run: Run, commands: Path) -> None:
    queue(commands, RUNNING)
    phase = phase_of(run, "1")
    assert start_phase(phase.pk)
    phase.refresh_from_db()
    assert (phase.state, phase.attempt, phase.on_disk) == ("running", 1, False)
    job = Job.objects.get(subject_uuid=phase.uuid)
    assert (job.state, job.native_id, name_of(job)) == ("running", "4712", "import.slurm")
    assert job.stdout_path == f"{run.work_dir}/slurm-4712.out" and job.submitted_at and job.started_at
    assert "goes on with job 4712" in Event.objects.get(kind="phase.start").message
    assert state_now(run).lanes["1"][""].job_ids == ("4712",)

    follow(job)
    assert job.state == "running", "asked again it is still the same"
    queue(commands, RUNNING.replace("RUNNING", "COMPLETED"))
    follow(job)
    phase.refresh_from_db()
    assert (job.state, phase.state) == ("succeeded", "done")


def test_one_that_waits_is_followed_too_and_its_failure_fails_the_phase(run: Run, commands: Path) -> None:
    queue(commands, RUNNING.replace("RUNNING|None", "PENDING|Resources").replace("2026-11-30T09:00:05", "N/A"))
    phase = phase_of(run, "1")
    assert start_phase(phase.pk)
    job = Job.objects.get(subject_uuid=phase.uuid)
    assert job.state == "queued" and job.started_at is None
    queue(commands, RUNNING)
    follow(job)
    assert job.state == "running"
    queue(commands, RUNNING.replace("RUNNING|None", "FAILED|NonZeroExitCode"))
    follow(job)
    phase.refresh_from_db()
    assert (job.state, phase.state) == ("failed", "failed")


def test_one_that_vanishes_is_never_handed_over_again(run: Run, commands: Path) -> None:
    queue(commands, RUNNING)
    phase = phase_of(run, "1")
    start_phase(phase.pk)
    job = Job.objects.get(subject_uuid=phase.uuid)
    (commands / "sbatch").write_text(f"#!/bin/bash\ntouch {commands}/submitted\n")
    queue(commands, "")
    for hours in (0, 1, 2):
        with time_machine.travel(timezone.now() + timedelta(hours=hours)):
            follow(job)
    assert job.state == "lost" and not (commands / "submitted").exists()
    assert settle_end(phase.pk) and states(run)["1"] == "done", "its outputs are all there"


def test_several_are_waited_for(run: Run, commands: Path) -> None:
    Phase.objects.filter(run=run, key="1").update(awaited_ids=["4712", "4713"])
    queue(commands, f"{RUNNING}\n{RUNNING.replace('4712', '4713')}")
    phase = phase_of(run, "1")
    with pytest.raises(AdapterError, match=NOTICE) as refused:
        start_phase(phase.pk)
    assert refused.value.transient
    phase.refresh_from_db()
    assert phase.state == "ready" and NOTICE in phase.reason and not Job.objects.exists()

    queue(commands, "")
    assert start_phase(phase.pk)
    phase.refresh_from_db()
    assert phase.state == "done" and not phase.on_disk and phase.attempt == 0


def test_one_that_asks_for_more_than_the_target_gives_is_waited_for(run: Run, commands: Path) -> None:
    queue(commands, RUNNING)
    Target.objects.filter(pk=run.target_id).update(max_memory_mib=50)
    phase = phase_of(run, "1")
    with pytest.raises(AdapterError, match="It can't be followed: "):
        start_phase(phase.pk)
    assert states(run)["1"] == "ready" and not Job.objects.exists()


def test_an_id_that_came_round_again_is_another_jobs(run: Run, commands: Path) -> None:
    queue(commands, "4712|4712|N/A|RUNNING|None|2026-11-30T09:00:00|2026-11-30T09:00:05|N/A|somebody_elses")
    assert start_phase(phase_of(run, "1").pk)


def test_a_cluster_that_cannot_be_asked_is_no_answer(run: Run, commands: Path) -> None:
    (commands / "squeue").write_text("#!/bin/bash\necho 'slurm_load_jobs error: Unable to contact' >&2\nexit 1\n")
    phase = phase_of(run, "1")
    with pytest.raises(AdapterError):
        start_phase(phase.pk)
    phase.refresh_from_db()
    assert phase.state == "ready" and phase.on_disk
