"""After a pause was acknowledged nothing new starts; what runs goes on; resuming goes on from there."""

from gates.models import Gate
from jobs.drain import begin_drain, end_drain
from jobs.models import Job
from jobs.services import handle_final
from runs.services.control import pause_run, resume_run, retry_phase
from runs.sweep import start_ready
from runs.tests.factories import HEAD, MANIFEST, RECON, Bench, phase_of, states, trace, write_pipeline


def test_nothing_starts_while_paused(bench: Bench) -> None:
    run = bench.begin()
    pause_run(run=run, author=bench.operator)

    assert bench.drive() == 0
    assert states(run)["1"] == "ready" and not Job.objects.exists()

    resume_run(run=run, author=bench.operator)
    bench.drive()
    assert states(run)["2"] == "checkpoint"


def test_a_phase_stays_ready_during_maintenance(bench: Bench) -> None:
    run = bench.begin()
    begin_drain(reason="upgrade")

    assert bench.drive() == 0
    assert states(run)["1"] == "ready" and not Job.objects.exists()

    end_drain()
    bench.drive()
    assert states(run)["2"] == "checkpoint"


def test_a_planned_job_is_held_and_let_go(bench: Bench) -> None:
    run = bench.begin()
    start_ready()
    pause_run(run=run, author=bench.operator)
    assert bench.run_jobs() == 0 and trace(run) == []

    resume_run(run=run, author=bench.operator)
    assert bench.run_jobs() == 1 and trace(run) == ["import"]


def test_a_job_that_ends_while_paused_starts_nothing(bench: Bench) -> None:
    run = bench.begin()
    start_ready()
    job = Job.objects.get()
    bench.execute(job)
    pause_run(run=run, author=bench.operator)

    assert handle_final(job)
    assert states(run)["1"] == "verifying" and states(run)["2"] == "pending"
    assert bench.drive() == 0

    resume_run(run=run, author=bench.operator)
    assert states(run)["1"] == "done" and states(run)["2"] == "ready"


def test_a_gate_is_not_asked_while_paused(bench: Bench) -> None:
    run = bench.begin()
    start_ready()
    bench.run_jobs()
    start_ready()
    job = Job.objects.planned().get()
    bench.execute(job)
    pause_run(run=run, author=bench.operator)
    handle_final(job)
    assert states(run)["2"] == "verifying" and not Gate.objects.exists()

    resume_run(run=run, author=bench.operator)
    assert states(run)["2"] == "checkpoint" and Gate.objects.get().state == "open"


def test_an_answer_while_paused_counts_but_starts_nothing(bench: Bench) -> None:
    run = bench.begin()
    bench.drive()
    pause_run(run=run, author=bench.operator)
    bench.approve("look")
    assert bench.drive() == 0
    assert states(run)["3a (alpha)"] == "pending"

    resume_run(run=run, author=bench.operator)
    bench.drive()
    assert set(states(run).values()) == {"done"}


def test_the_second_step_waits_for_the_resume(bench: Bench) -> None:
    manifest = MANIFEST.replace("[recon.slurm]", "[first.slurm, recon.slurm]")
    files = {"scripts/manifest.yml": manifest, "scripts/first.slurm": HEAD + "echo first >> trace\n"}
    write_pipeline(bench.folder / "pipeline", **files, **{"scripts/recon.slurm": HEAD + RECON})
    run = bench.begin()
    start_ready()
    bench.run_jobs()
    start_ready()
    job = Job.objects.planned().get()
    bench.execute(job)
    pause_run(run=run, author=bench.operator)
    handle_final(job)

    assert states(run)["2"] == "running"
    assert bench.drive() == 0

    resume_run(run=run, author=bench.operator)
    bench.drive()
    assert states(run)["2"] == "checkpoint"
    assert trace(run) == ["import", "first", "recon TS_001", "recon TS_002", "recon TS_003"]
    assert list(Job.objects.filter(subject_uuid=phase_of(run, "2").uuid).values_list("step", "attempt")) == [
        (1, 1),
        (0, 1),
    ]


def test_a_retry_while_paused_waits(bench: Bench) -> None:
    write_pipeline(bench.folder / "pipeline", **{"scripts/import.slurm": "exit 1\n"})
    run = bench.begin()
    bench.drive()
    pause_run(run=run, author=bench.operator)
    retry_phase(phase=phase_of(run, "1"), author=bench.operator)
    assert states(run)["1"] == "ready"
    assert bench.drive() == 0
