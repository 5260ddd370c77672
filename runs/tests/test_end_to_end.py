"""A run goes from its first phase through its gate to its end."""

from pathlib import Path

from gates.models import Gate
from jobs.models import Job
from record.models import Decision, Event
from runs.models import Run, TiltSeries
from runs.states import RunState
from runs.tests.factories import Bench, states, trace, write_two_phases


def test_two_phases_and_a_gate(bench: Bench, tmp_path: Path) -> None:
    pipeline = bench.add_pipeline(write_two_phases(tmp_path / "two"), "two")

    run = bench.begin(pipeline=pipeline, species=[])
    assert states(run) == {"1": "ready", "2": "pending"}

    bench.drive()
    assert states(run) == {"1": "done", "2": "checkpoint"}
    assert Gate.objects.get().state == "open"

    bench.approve("look", remark="clear")
    run.refresh_from_db()
    assert states(run) == {"1": "done", "2": "done"}
    assert run.state == RunState.DONE and run.ended_at
    assert trace(run) == ["import", "recon TS_001", "recon TS_002", "recon TS_003"]
    assert Job.objects.count() == 2
    decision = Decision.objects.get()
    assert decision.verdict == "approve" and decision.gate_uuid == Gate.objects.get().uuid
    kinds = list(Event.objects.filter(root_uuid=run.uuid).values_list("kind", flat=True))
    assert {"run.create", "run.finish", "phase.finish", "gate.apply"} <= set(kinds)


def test_lanes_run_side_by_side_and_the_series_are_counted(bench: Bench) -> None:
    run = bench.begin()
    bench.drive()
    bench.approve("look")
    bench.drive()

    run = Run.objects.get(pk=run.pk)
    assert run.state == RunState.DONE
    assert set(states(run).values()) == {"done"}
    assert sorted(trace(run)[4:]) == ["average alpha", "average beta", "pick alpha", "pick beta"]
    assert list(TiltSeries.objects.values_list("name", flat=True)) == ["TS_001", "TS_002", "TS_003"]
    recon = run.phases.get(key="2")
    assert (recon.items_done, recon.items_total, recon.completion) == (3, 3, "done")
    assert (Path(run.work_dir) / "average/beta/map.txt").read_text() == "0.6\n0.6\n0.6\n"


def test_driving_an_ended_run_changes_nothing(bench: Bench) -> None:
    run = bench.begin()
    bench.drive()
    bench.approve("look")
    bench.drive()
    before = Event.objects.count()

    assert bench.drive() == 0
    assert Event.objects.count() == before
    assert states(run)["3b (alpha)"] == "done"
