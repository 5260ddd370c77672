"""What lies on disk says that a phase is done, where nobody can say how its job ended."""

from pathlib import Path

import pytest
from django.db import transaction
from django.utils import timezone

from jobs.models import Job
from jobs.services import handle_final
from jobs.states import JOB
from record.models import Event
from runs.models import Phase, Run
from runs.progress import look_at_progress
from runs.services.by_outputs import settle_end, unsettled_phases
from runs.services.control import cancel_run, pause_run, resume_run
from runs.services.ending import settle_stopped
from runs.sweep import start_ready
from runs.tests.factories import HEAD, Bench, begin_job, phase_of, run_script, states, trace, write_pipeline


@pytest.fixture
def run(bench: Bench) -> Run:
    """A run whose second phase runs, with a job of which nothing is known any more. Its outputs can all be checked."""
    manifest = (bench.folder / "pipeline/scripts/manifest.yml").read_text()
    manifest = manifest.replace(', "Updated settings (prose)"', "")
    write_pipeline(bench.folder / "pipeline", **{"scripts/manifest.yml": manifest})
    run = bench.begin()
    lose_reconstruction(bench)
    return run


def lose_reconstruction(bench: Bench) -> None:
    """Go on until the second phase runs, and lose its job."""
    start_ready()
    bench.run_jobs()
    start_ready()
    begin_job(Job.objects.get(state="planned"))
    Job.objects.filter(state="running").update(state="lost", native_id="17")


def end(job: Job, event: str) -> None:
    """Late evidence says how the job ended, and what follows is done."""
    with transaction.atomic():
        JOB.apply(job, event, lab_id=job.lab_id, subject=job.subject(), ended_at=timezone.now())
    handle_final(job)


def test_with_complete_outputs_it_is_done(bench: Bench, run: Run) -> None:
    job = Job.objects.get(state="lost")
    assert run_script(job) == 0

    phase = phase_of(run, "2")
    assert unsettled_phases(run.target_id) == [phase.pk] and settle_end(phase.pk)
    assert states(run)["2"] == "checkpoint"
    assert phase_of(run, "2").completion == "done"
    said = Event.objects.filter(kind="phase.verify", subject_uuid=phase.uuid).get().message
    assert said.endswith("nobody can say how job 17 ended, and its outputs are all there")
    job.refresh_from_db()
    assert job.state == "lost" and not settle_end(phase.pk), "late evidence still counts for the job"
    assert unsettled_phases(run.target_id) == []


@pytest.mark.parametrize("made", [[], ["TS_001", "TS_002"]])
def test_else_it_rests(bench: Bench, run: Run, made: list[str]) -> None:
    (Path(run.work_dir) / "recon").mkdir()
    for name in made:
        (Path(run.work_dir) / f"recon/{name}.txt").write_text("32")
    phase = phase_of(run, "2")
    assert settle_end(phase.pk)
    phase.refresh_from_db()
    assert phase.state == "verifying" and phase.awaits_end and Job.objects.filter(state="lost").exists()
    assert phase.reason.startswith("Job 17 has left the queue, and nobody can say how it ended.")
    assert Event.objects.filter(kind="phase.await_end", subject_uuid=phase.uuid).count() == 1

    pause_run(run=run, author=bench.operator)
    resume_run(run=run, author=bench.operator)  # whatever else lets the run go on
    assert not settle_end(phase.pk) and unsettled_phases(run.target_id) == [], "asked again it changes nothing"
    assert states(run)["2"] == "verifying"


def test_its_outputs_are_counted_meanwhile_and_conclude_it(run: Run) -> None:
    phase = phase_of(run, "2")
    settle_end(phase.pk)
    run_script(Job.objects.get(state="lost"))
    assert unsettled_phases(run.target_id) == []
    assert phase.pk in Phase.objects.in_work().values_list("pk", flat=True)
    look_at_progress(phase.pk)
    assert unsettled_phases(run.target_id) == [phase.pk] and settle_end(phase.pk)
    assert states(run)["2"] == "checkpoint"


def test_it_runs_on_where_its_job_is_heard_of_again(run: Run) -> None:
    phase = phase_of(run, "2")
    settle_end(phase.pk)
    Job.objects.filter(state="lost").update(state="running")
    assert unsettled_phases(run.target_id) == [phase.pk] and settle_end(phase.pk)
    phase.refresh_from_db()
    assert (phase.state, phase.reason) == ("running", "")
    assert not settle_end(phase.pk)


@pytest.mark.parametrize(("event", "state"), [("succeed", "checkpoint"), ("fail", "failed"), ("cancel", "failed")])
def test_a_known_end_settles_it(run: Run, event: str, state: str) -> None:
    settle_end(phase_of(run, "2").pk)
    job = Job.objects.get(state="lost")
    if event == "succeed":
        run_script(job)
    end(job, event)
    assert states(run)["2"] == state


def test_without_outputs_a_known_end_fails_it(run: Run) -> None:
    settle_end(phase_of(run, "2").pk)
    end(Job.objects.get(state="lost"), "succeed")
    phase = phase_of(run, "2")
    assert phase.state == "failed" and "recon/TS_001.txt is missing" in phase.reason


def test_a_lost_job_of_an_earlier_step_proves_nothing_and_the_next_follows_its_end(bench: Bench) -> None:
    manifest = (bench.folder / "pipeline/scripts/manifest.yml").read_text()
    manifest = manifest.replace(', "Updated settings (prose)"', "").replace(
        "[recon.slurm]", "[recon.slurm, more.slurm]"
    )
    more = {"scripts/manifest.yml": manifest, "scripts/more.slurm": f"{HEAD}echo more >> trace\n"}
    write_pipeline(bench.folder / "pipeline", **more)
    run = bench.begin()
    start_ready()
    bench.run_jobs()
    start_ready()
    job = Job.objects.get(state="planned")
    begin_job(job)
    run_script(job)
    Job.objects.filter(pk=job.pk).update(state="lost")
    phase = phase_of(run, "2")

    assert settle_end(phase.pk) and states(run)["2"] == "verifying"
    pause_run(run=run, author=bench.operator)
    job.refresh_from_db()
    end(job, "succeed")
    assert states(run)["2"] == "running", "it is between two steps"
    resume_run(run=run, author=bench.operator)
    bench.run_jobs()
    assert states(run)["2"] == "checkpoint" and trace(run)[-1] == "more"


def test_of_a_cancelled_run_it_is_stopped(bench: Bench, run: Run) -> None:
    settle_end(phase_of(run, "2").pk)
    cancel_run(run=run, author=bench.operator)
    assert states(run)["2"] == "verifying" and unsettled_phases(run.target_id) == [], "its job may still be there"
    end(Job.objects.get(state="lost"), "cancel")
    settle_stopped(run.pk)
    assert states(run)["2"] == "failed"


def test_an_output_that_is_not_checked_is_no_proof(bench: Bench) -> None:
    run = bench.begin()  # of the small pipeline as it is, with an output in prose
    lose_reconstruction(bench)
    run_script(Job.objects.get(state="lost"))
    assert settle_end(phase_of(run, "2").pk) and not settle_end(phase_of(run, "2").pk)
    assert states(run)["2"] == "verifying"
    assert "can't prove that it is done" in phase_of(run, "2").reason
