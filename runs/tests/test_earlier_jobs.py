"""Jobs that were handed over before a run was taken up are waited for; their phase is neither judged nor started."""

from pathlib import Path

import pytest

from jobs.hosts import this_host
from jobs.models import Cluster, Target
from record.errors import AdapterError
from runs.models import Phase, Run
from runs.services.launch import start_phase
from runs.tests.factories import Bench, phase_of

NOTICE = "Job 4712, handed over before the run was taken up, is still at cluster"


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
    (commands / "squeue").write_text(f"#!/bin/bash\necho '{line}'\n")


def test_one_that_still_runs_is_waited_for(run: Run, commands: Path) -> None:
    queue(commands, "4712|4712|N/A|RUNNING|None|2026-11-30T09:00:00|2026-11-30T09:00:05|N/A|import.slurm")
    phase = phase_of(run, "1")
    with pytest.raises(AdapterError, match=NOTICE) as refused:
        start_phase(phase.pk)
    assert refused.value.transient
    phase.refresh_from_db()
    assert phase.state == "ready" and NOTICE in phase.reason

    queue(commands, "")
    assert start_phase(phase.pk)
    phase.refresh_from_db()
    assert phase.state == "done" and not phase.on_disk and phase.attempt == 0


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
