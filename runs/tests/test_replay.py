"""A replay starts nothing: what lies on disk is read, up to the next gate."""

from pathlib import Path
from typing import Any

import pytest

from gates.models import Gate
from jobs.hosts import this_host
from jobs.models import Cluster, Job, Target
from record.errors import BadInput, InvalidTransition
from record.models import Event
from runs.models import Run
from runs.services.board import Board
from runs.services.control import archive_run, cancel_run, retry_phase, run_again_from
from runs.services.engine import advance_run
from runs.services.steps import plan_step
from runs.services.tools import evidence_target
from runs.tests.factories import Bench, phase_of, states, trace


@pytest.fixture
def finished(bench: Bench) -> Run:
    """A run that went through to its end and was put away, so that its folder can be replayed."""
    run = bench.begin("real")
    bench.drive()
    bench.approve("look")
    bench.drive()
    run.refresh_from_db()
    archive_run(run=run, author=bench.operator)
    return run


def replay(bench: Bench, of: Run, **changes: Any) -> Run:
    return bench.begin("again", work_dir=of.work_dir, replay=True, **changes)


def test_it_goes_to_the_next_gate_and_on_without_a_job(bench: Bench, finished: Run) -> None:
    jobs, before = Job.objects.count(), trace(finished)
    run = replay(bench, finished)
    bench.drive()
    assert states(run) == {
        "1": "done", "2": "checkpoint", "3a (alpha)": "pending", "3a (beta)": "pending",
        "3b (alpha)": "pending", "3b (beta)": "pending",
    }  # fmt: skip
    assert Gate.objects.get(root_uuid=run.uuid).state == "open"
    phase = phase_of(run, "2")
    assert (phase.attempt, phase.items_done, phase.completion) == (0, 3, "done")

    bench.approve("look")
    bench.drive()
    run.refresh_from_db()
    assert run.state == "done" and set(states(run).values()) == {"done"}
    assert (Job.objects.count(), trace(finished)) == (jobs, before)
    told = Event.objects.filter(root_uuid=run.uuid, kind="phase.fast_forward").values_list("message", flat=True)
    assert "found on disk, 3 of 3 tilt series; nothing was started" in " ".join(told)
    assert [each.name for each in run.tilt_series.all()] == ["TS_001", "TS_002", "TS_003"]


def test_what_is_missing_stops_it_by_name_until_it_is_there(bench: Bench, finished: Run) -> None:
    lost = Path(finished.work_dir) / "recon/TS_002.txt"
    text = lost.read_text()
    lost.unlink()
    run = replay(bench, finished)
    bench.drive()
    phase = phase_of(run, "2")
    assert phase.state == "failed"
    assert "recon/TS_002.txt is missing" in phase.reason and "starts nothing" in phase.reason
    assert not Gate.objects.filter(root_uuid=run.uuid).exists()

    lost.write_text(text)
    retry_phase(phase=phase, author=bench.operator)
    bench.drive()
    assert states(run)["2"] == "checkpoint"
    assert trace(finished).count("recon TS_002") == 1


def test_doing_a_phase_again_looks_again_and_moves_no_file(bench: Bench, finished: Run) -> None:
    run = replay(bench, finished)
    bench.drive()
    bench.approve("look")
    bench.drive()
    run_again_from(phase=phase_of(run, "1"), author=bench.operator, reason="to show it once more")
    bench.drive()
    assert states(run)["2"] == "checkpoint"
    assert (Path(run.work_dir) / "recon/TS_001.txt").exists()
    assert not (Path(run.work_dir) / ".conductor/superseded").exists()


def test_nothing_can_be_planned_in_it(bench: Bench, finished: Run) -> None:
    run = replay(bench, finished)
    board = Board.load(Run.objects.get(pk=run.pk))
    with pytest.raises(InvalidTransition, match="is a replay: it starts nothing"):
        plan_step(board, board.phases[0], 0)


def test_looking_twice_changes_nothing(bench: Bench, finished: Run) -> None:
    run = replay(bench, finished)
    bench.drive()
    before = Event.objects.count()
    assert advance_run(run.pk) == 0
    assert bench.drive() == 0
    assert Event.objects.count() == before


def test_a_cancelled_one_reads_no_more(bench: Bench, finished: Run) -> None:
    run = replay(bench, finished)
    cancel_run(run=run, author=bench.operator, reason="the wrong folder")
    bench.drive()
    assert set(states(run).values()) == {"pending"}


def test_a_folder_that_is_not_there_is_refused(bench: Bench) -> None:
    with pytest.raises(BadInput, match="the folder .*/nowhere isn't there"):
        bench.begin(work_dir=str(bench.folder / "nowhere"), replay=True)
    assert not Run.objects.exists() and not (bench.folder / "nowhere").exists()


def cluster_here(bench: Bench, root: str) -> Target:
    target = Target.objects.create(
        lab=bench.lab, name="cluster", kind="slurm", host=this_host(), roots=[root], job_folder=f"{root}/.jobs"
    )
    Cluster.objects.create(target=target)
    return target


def test_evidence_of_a_cluster_run_is_drawn_on_this_machine(bench: Bench, finished: Run) -> None:
    run = replay(bench, finished, target=cluster_here(bench, str(bench.folder)))
    assert evidence_target(run) == bench.target
    run.replay = False
    assert evidence_target(run).name == "cluster"


def test_a_folder_that_no_local_target_holds_is_refused(bench: Bench, finished: Run) -> None:
    cluster = cluster_here(bench, str(bench.folder))
    Target.objects.filter(pk=bench.target.pk).update(roots=["/elsewhere"])
    with pytest.raises(BadInput, match="none has a root that holds"):
        replay(bench, finished, target=cluster)
