"""What lies on disk says that a phase is done, where nobody can say how its job ended."""

import shutil
from pathlib import Path

import pytest

from jobs.models import Job
from record.models import Event
from runs.models import Run
from runs.pipeline.store import folder_of
from runs.services.by_outputs import conclude_lost, lost_phases
from runs.sweep import start_ready
from runs.tests.factories import Bench, begin_job, phase_of, run_script, states, write_pipeline


@pytest.fixture
def run(bench: Bench) -> Run:
    """A run whose second phase runs, with a job of which nothing is known any more. Its outputs can all be checked."""
    manifest = (bench.folder / "pipeline/scripts/manifest.yml").read_text()
    manifest = manifest.replace(', "Updated settings (prose)"', "")
    write_pipeline(bench.folder / "pipeline", **{"scripts/manifest.yml": manifest})
    run = bench.begin()
    start_ready()
    bench.run_jobs()
    start_ready()
    begin_job(Job.objects.get(state="planned"))
    Job.objects.filter(state="running").update(state="lost", native_id="17")
    return run


def test_with_complete_outputs_it_is_done(bench: Bench, run: Run) -> None:
    job = Job.objects.get(state="lost")
    assert run_script(job) == 0

    phase = phase_of(run, "2")
    assert lost_phases(run.target_id) == [] and conclude_lost(phase.pk)
    assert states(run)["2"] == "checkpoint"
    assert phase_of(run, "2").completion == "done"
    said = Event.objects.filter(kind="phase.verify", subject_uuid=phase.uuid).get().message
    assert said.endswith("nobody can say how job 17 ended, and its outputs are all there")
    job.refresh_from_db()
    assert job.state == "lost" and not conclude_lost(phase.pk), "late evidence still counts for the job"


@pytest.mark.parametrize("made", [[], ["TS_001", "TS_002"]])
def test_else_it_waits(run: Run, made: list[str]) -> None:
    (Path(run.work_dir) / "recon").mkdir()
    for name in made:
        (Path(run.work_dir) / f"recon/{name}.txt").write_text("32")
    assert not conclude_lost(phase_of(run, "2").pk)
    assert states(run)["2"] == "running" and Job.objects.filter(state="lost").exists()


def test_an_output_that_is_not_checked_is_no_proof(bench: Bench, run: Run) -> None:
    run_script(Job.objects.get(state="lost"))
    spec = run.snapshot.spec
    next(phase for phase in spec["phases"] if phase["key"] == "2")["unchecked"] = ["Updated settings"]
    other = f"{run.snapshot.digest[:-1]}x"
    shutil.copytree(folder_of(run.snapshot.digest), folder_of(other))
    type(run.snapshot).objects.filter(pk=run.snapshot_id).update(spec=spec, digest=other)
    assert not conclude_lost(phase_of(run, "2").pk)
    assert states(run)["2"] == "running"
