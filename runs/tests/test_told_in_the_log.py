"""What fails in a sweep is told with the run or gate that it was about, so that all lines of one can be found."""

import pytest

from gates import sweep as gates_sweep
from gates.models import Gate
from jobs.patience import Patience
from record.tests.heard import heard
from runs import sweep
from runs.tests.factories import Bench, phase_of


def burst(*args: object, **given: object) -> None:
    raise RuntimeError("it burst")


@pytest.fixture(autouse=True)
def _no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "_patience", Patience())
    monkeypatch.setattr(gates_sweep, "_patience", Patience())


def test_a_phase_that_can_not_be_started(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    run = bench.begin()
    monkeypatch.setattr("runs.services.launch.check_before_start", burst)
    with heard("jobs.patience") as lines:
        sweep.start_ready()
    phase = phase_of(run, "1")
    keys = {"run": str(run.uuid), "target": bench.target.name}
    assert lines == [(f"start_phase {phase.pk} failed; it is tried again", keys)]


def test_progress_that_can_not_be_read(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    run = bench.begin()
    sweep.start_ready()
    monkeypatch.setattr("runs.progress.count_done", burst)
    phase = phase_of(run, "1")
    type(phase).objects.filter(pk=phase.pk).update(looked_at=None)
    with heard("jobs.patience") as lines:
        sweep.refresh_progress()
    keys = {"run": str(run.uuid), "target": bench.target.name}
    assert lines == [(f"look_at_progress {phase.pk} failed; it is tried again", keys)]


@pytest.mark.parametrize(
    ("change", "place", "due"),
    [
        ({"state": "preparing"}, "gates.services.preparing.begin_preparing", "prepare_due"),
        ({"due_at": "2020-01-01T00:00:00Z"}, "gates.services.clocks._close", "close_overdue"),
        ({"escalates_at": "2020-01-01T00:00:00Z"}, "gates.services.clocks.record_event", "escalate_due"),
    ],
)
def test_a_gate_that_can_not_be_dealt_with(
    change: dict[str, str], place: str, due: str, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = bench.begin()
    bench.drive()
    gate = Gate.objects.get(state="open")
    Gate.objects.filter(pk=gate.pk).update(**change)
    monkeypatch.setattr(place, burst)
    with heard("jobs.patience") as lines:
        getattr(gates_sweep, due)()
    assert [keys for _, keys in lines] == [{"gate": str(gate.uuid), "run": str(run.uuid)}]
