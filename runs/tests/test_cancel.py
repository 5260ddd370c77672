"""Cancelling ends everything: jobs, gates, what waits; and what ends late changes nothing."""

from django.utils import timezone

from gates.models import Gate
from jobs.models import Job
from jobs.services import handle_final
from jobs.states import JOB, JobState
from runs.services.control import archive_run, cancel_run, pause_run
from runs.sweep import start_ready
from runs.tests.factories import HEAD, MANIFEST, Bench, states, write_pipeline


def test_an_open_gate_is_withdrawn_and_its_phase_stopped(bench: Bench) -> None:
    run = bench.begin()
    bench.drive()
    decision = cancel_run(run=run, author=bench.operator, reason="wrong data")

    run.refresh_from_db()
    assert run.state == "cancelled" and run.ended_at
    assert Gate.objects.get().state == "withdrawn"
    assert states(run) == {"1": "done", "2": "failed", **dict.fromkeys(_LANES, "pending")}
    assert (decision.verdict, decision.statement.reason) == ("cancel", "wrong data")
    assert bench.drive() == 0


def test_a_planned_job_never_starts(bench: Bench) -> None:
    run = bench.begin()
    start_ready()
    cancel_run(run=run, author=bench.operator)
    bench.drive()
    assert Job.objects.get().state == JobState.CANCELLED
    assert states(run)["1"] == "failed"


def test_a_running_job_is_asked_to_end_and_its_end_stops_the_phase(bench: Bench) -> None:
    run = bench.begin()
    start_ready()
    job = Job.objects.get()
    for event in ("claim", "start"):
        JOB.apply(job, event, lab_id=job.lab_id, subject=job.subject())
    cancel_run(run=run, author=bench.operator, reason="stop")
    job.refresh_from_db()
    assert job.cancel_requested_at and states(run)["1"] == "running"

    JOB.apply(job, "cancel", lab_id=job.lab_id, subject=job.subject(), ended_at=timezone.now())
    handle_final(job)
    assert states(run)["1"] == "failed"
    assert run.phases.get(key="1").reason == "Stopped: the run was cancelled."


def test_a_job_that_ends_well_after_the_cancelling_starts_nothing(bench: Bench) -> None:
    run = bench.begin()
    start_ready()
    job = Job.objects.get()
    bench.execute(job)
    cancel_run(run=run, author=bench.operator)
    handle_final(job)
    assert states(run)["1"] == "failed" and states(run)["2"] == "pending"
    assert bench.drive() == 0


def test_between_two_steps_the_phase_is_stopped_at_once(bench: Bench) -> None:
    manifest = MANIFEST.replace("[import.slurm]", "[import.slurm, second.slurm]")
    files = {"scripts/manifest.yml": manifest, "scripts/second.slurm": HEAD + "echo second >> trace\n"}
    write_pipeline(bench.folder / "pipeline", **files)
    run = bench.begin()
    start_ready()
    job = Job.objects.get()
    bench.execute(job)
    pause_run(run=run, author=bench.operator)
    handle_final(job)
    assert states(run)["1"] == "running"

    cancel_run(run=run, author=bench.operator)
    assert states(run)["1"] == "failed"


def test_the_folder_of_an_archived_run_may_be_used_anew(bench: Bench) -> None:
    run = bench.begin()
    cancel_run(run=run, author=bench.operator)
    archive_run(run=run, author=bench.operator, reason="put away")
    again = bench.begin("second", work_dir=run.work_dir)
    assert again.work_dir == run.work_dir


_LANES = ("3a (alpha)", "3a (beta)", "3b (alpha)", "3b (beta)")
