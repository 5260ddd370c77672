"""Doing a phase again, and after it what depends on it."""

import subprocess
from pathlib import Path

import pytest
from django.utils import timezone

from gates.models import Gate
from jobs.models import Job
from jobs.processes import identity
from jobs.states import JOB
from record.errors import InvalidTransition
from runs.models import Phase, Run
from runs.services.control import run_again_from
from runs.services.series import exclude_series, include_series
from runs.services.settings import set_conf
from runs.sweep import start_ready
from runs.tests.factories import Bench, phase_of, states, trace


@pytest.fixture
def done(bench: Bench) -> Run:
    run = bench.begin()
    bench.drive()
    bench.approve("look")
    bench.drive()
    return Run.objects.get(pk=run.pk)


def test_the_run_reopens_and_what_depends_becomes_stale(bench: Bench, done: Run) -> None:
    decision = run_again_from(phase=phase_of(done, "2"), author=bench.operator, reason="better values")

    done.refresh_from_db()
    assert done.state == "running" and done.ended_at is None
    assert states(done) == {
        "1": "done", "2": "ready", "3a (alpha)": "done", "3a (beta)": "done", "3b (alpha)": "done", "3b (beta)": "done",
    }  # fmt: skip
    stale = {phase.label: phase.stale_by for phase in done.phases.all() if phase.stale_since}
    assert stale == dict.fromkeys(("3a (alpha)", "3a (beta)", "3b (alpha)", "3b (beta)"), decision)


def test_its_gate_is_asked_anew_and_all_is_done_again(bench: Bench, done: Run) -> None:
    set_conf(run=done, values={"DIM": 64}, author=bench.operator, reason="larger")
    assert phase_of(done, "2").stale_since
    run_again_from(phase=phase_of(done, "2"), author=bench.operator)
    bench.drive()

    assert states(done)["2"] == "checkpoint" and states(done)["3a (alpha)"] == "done"
    second = Gate.objects.get(key="look", state="open")
    assert second.iteration == 2
    bench.approve("look", reason="sharper now")
    bench.drive()

    done.refresh_from_db()
    assert done.state == "done"
    assert not done.phases.exclude(stale_since=None).exists()
    assert trace(done).count("average alpha") == 2 and trace(done).count("recon TS_001") == 2
    folder = Path(done.work_dir)
    assert (folder / "recon/TS_001.txt").read_text() == "64\n"
    assert (folder / ".conductor/superseded/2.1/recon/TS_001.txt").read_text() == "32\n", "what was made is kept"


def test_outputs_may_be_kept(bench: Bench, done: Run) -> None:
    (Path(done.work_dir) / "recon/TS_002.txt").unlink()
    run_again_from(phase=phase_of(done, "2"), author=bench.operator, keep_outputs=True)
    bench.drive()
    assert trace(done).count("recon TS_001") == 1 and trace(done).count("recon TS_002") == 2


def test_a_lane_does_not_touch_the_other(bench: Bench, done: Run) -> None:
    run_again_from(phase=phase_of(done, "3a", "alpha"), author=bench.operator)
    bench.drive()
    assert trace(done).count("pick alpha") == 2 and trace(done).count("average alpha") == 2
    assert trace(done).count("pick beta") == 1 and trace(done).count("average beta") == 1


def test_while_it_runs_its_job_is_cancelled_and_nothing_starts_beside_it(bench: Bench) -> None:
    run = bench.begin()
    start_ready()
    first = Job.objects.get()
    for event in ("claim", "start"):
        JOB.apply(first, event, lab_id=first.lab_id, subject=first.subject())
    run_again_from(phase=phase_of(run, "1"), author=bench.operator)
    assert states(run)["1"] == "ready"
    assert start_ready() == 0, "the old job is still about"

    JOB.apply(first, "cancel", lab_id=first.lab_id, subject=first.subject(), ended_at=timezone.now())
    bench.drive()
    assert phase_of(run, "1").attempt == 2 and states(run)["2"] == "checkpoint"


def test_an_open_gate_after_it_is_withdrawn(bench: Bench) -> None:
    run = bench.begin()
    bench.drive()
    run_again_from(phase=phase_of(run, "1"), author=bench.operator)
    assert Gate.objects.get().state == "withdrawn"
    assert states(run)["2"] == "pending"
    bench.drive()
    assert Gate.objects.get(state="open").iteration == 2


def test_what_has_not_been_run_is_refused(bench: Bench) -> None:
    run = bench.begin()
    with pytest.raises(InvalidTransition, match="has not been run yet"):
        run_again_from(phase=phase_of(run, "2"), author=bench.operator)


def test_outputs_are_set_aside_by_one_process_at_a_time(bench: Bench, done: Run) -> None:
    run_again_from(phase=phase_of(done, "2"), author=bench.operator)
    other = subprocess.Popen(["sleep", "60"])
    try:
        Phase.objects.filter(pk=phase_of(done, "2").pk).update(holder=identity(other.pid))
        assert start_ready() == 0
    finally:
        other.kill()
        other.wait()
    assert start_ready() == 1, "the claim ended with its process"
    assert phase_of(done, "2").holder == ""


def test_what_an_excluded_series_left_is_set_aside_and_made_anew_once_it_is_included(bench: Bench, done: Run) -> None:
    series = done.tilt_series.get(name="TS_002")
    left = Path(done.work_dir) / "recon/TS_002.txt"
    assert left.read_text() == "32\n"
    exclude_series(series=series, author=bench.reviewer, reason="ice")
    set_conf(run=done, values={"DIM": 64}, author=bench.operator, reason="larger")

    run_again_from(phase=phase_of(done, "2"), author=bench.operator)
    bench.drive()
    assert not left.exists()
    assert (Path(done.work_dir) / ".conductor/superseded/2.1/recon/TS_002.txt").exists()

    series.refresh_from_db()
    include_series(series=series, author=bench.reviewer, reason="not so bad")
    run_again_from(phase=phase_of(done, "2"), author=bench.operator, keep_outputs=True)
    bench.drive()
    assert left.read_text() == "64\n"
