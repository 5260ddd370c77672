"""What follows a gate: on, back, or no further."""

from datetime import timedelta
from pathlib import Path

import pytest
import time_machine
from django.utils import timezone

from gates.models import Gate
from gates.services import answer_gate, apply_gate, reopen_gate, withdraw_gate
from gates.sweep import close_overdue
from record.errors import InvalidTransition, StaleState
from runs.gatekeeping import KEEPER
from runs.models import Run
from runs.services.control import cancel_run, retry_phase, run_again_from, skip_phase
from runs.tests.factories import OVERLAY, Bench, phase_of, states, trace, write_pipeline


def at_the_gate(bench: Bench, overlay: str = OVERLAY) -> Run:
    write_pipeline(bench.folder / "pipeline", **{"scripts/conductor.yml": overlay})
    run = bench.begin()
    bench.drive()
    return run


def test_sent_back_it_is_done_again(bench: Bench) -> None:
    run = at_the_gate(bench)
    bench.approve("look", "send_back", "too noisy")
    bench.drive()

    assert trace(run).count("recon TS_001") == 2 and trace(run).count("import") == 1
    assert (Path(run.work_dir) / ".conductor/superseded/2.1/recon/TS_001.txt").exists()
    assert Gate.objects.get(state="open").iteration == 2
    assert run.phases.get(key="2").state == "checkpoint"


def test_sent_back_to_an_earlier_phase(bench: Bench) -> None:
    run = at_the_gate(bench, OVERLAY.replace("after: 2", "after: 2\n    send_back_to: 1"))
    bench.approve("look", "send_back", "wrong import")
    bench.drive()
    assert trace(run).count("import") == 2 and trace(run).count("recon TS_001") == 2


def test_rejected_the_lane_stops_and_says_why(bench: Bench) -> None:
    overlay = OVERLAY.replace("after: 2", "after: 3a")
    run = at_the_gate(bench, overlay)
    gates = {KEEPER.describe(gate): gate for gate in Gate.objects.filter(state="open")}
    bench.answer(gates["first, Pick (phase 3a, alpha)"], "reject", "not this species")
    bench.answer(gates["first, Pick (phase 3a, beta)"])
    bench.drive()

    assert states(run)["3a (alpha)"] == "failed" and states(run)["3b (alpha)"] == "pending"
    assert phase_of(run, "3a", "alpha").reason == "Rejected at the gate Look at it by reviewer: not this species"
    assert states(run)["3b (beta)"] == "done"
    run.refresh_from_db()
    assert run.state == "running"

    retry_phase(phase=phase_of(run, "3a", "alpha"), author=bench.operator)
    bench.drive()
    assert Gate.objects.get(state="open").iteration == 2


def test_a_gate_before_its_phase_holds_it(bench: Bench) -> None:
    run = at_the_gate(bench, OVERLAY.replace("after: 2", "before: 2"))
    assert states(run)["2"] == "checkpoint" and "recon TS_001" not in trace(run)
    bench.approve("look")
    bench.drive()
    assert states(run)["2"] == "done"


def test_a_gate_before_that_was_rejected_is_asked_again_at_a_retry(bench: Bench) -> None:
    run = at_the_gate(bench, OVERLAY.replace("after: 2", "before: 2"))
    bench.approve("look", "reject", "not yet")
    retry_phase(phase=phase_of(run, "2"), author=bench.operator)
    bench.drive()
    assert states(run)["2"] == "checkpoint" and "recon TS_001" not in trace(run)
    assert Gate.objects.get(state="open").iteration == 2


def test_two_gates_after_one_phase_are_asked_one_after_the_other(bench: Bench) -> None:
    second = "gates:\n  - {key: first, protocol: generic, after: 2, title: First}\n"
    run = at_the_gate(bench, OVERLAY.replace("gates:\n", second))
    assert list(Gate.objects.values_list("key", flat=True)) == ["first"]
    bench.approve("first")
    assert states(run)["2"] == "checkpoint"
    bench.approve("look")
    assert states(run)["2"] == "done"
    assert phase_of(run, "2").gates_passed == ["first", "look"]


def test_timed_out_it_blocks_until_it_is_reopened(bench: Bench) -> None:
    run = at_the_gate(bench, OVERLAY.replace("after: 2", "after: 2\n    policy: {due_s: 60}"))
    with time_machine.travel(timezone.now() + timedelta(seconds=120)):
        close_overdue()
    assert Gate.objects.get().state == "timed_out"
    assert bench.drive() == 0
    phase = phase_of(run, "2")
    assert phase.state == "checkpoint" and "is timed out. Reopen it" in phase.reason

    reopen_gate(gate_id=Gate.objects.get().pk, author=bench.reviewer, reason="back from holiday")
    assert phase_of(run, "2").reason == ""
    bench.approve("look")
    assert states(run)["2"] == "done"


def test_withdrawn_it_says_so_and_can_be_reopened(bench: Bench) -> None:
    run = at_the_gate(bench)
    withdraw_gate(gate_id=Gate.objects.get().pk, author=bench.reviewer, reason="asked too early")
    assert "is withdrawn. Reopen it" in phase_of(run, "2").reason
    assert states(run)["2"] == "checkpoint"


@pytest.mark.parametrize(("verdict", "state"), [("approve", "done"), ("reject", "failed"), ("send_back", "ready")])
def test_a_gate_that_is_reopened_after_all_was_done(bench: Bench, verdict: str, state: str) -> None:
    run = at_the_gate(bench)
    bench.approve("look")
    bench.drive()
    reopen_gate(gate_id=Gate.objects.get().pk, author=bench.reviewer, reason="a second look")
    assert states(run)["2"] == "done"

    bench.approve("look", verdict, "on second thoughts")
    run.refresh_from_db()
    assert states(run)["2"] == state
    assert run.state == ("done" if verdict == "approve" else "running")
    assert bool(phase_of(run, "3b", "alpha").stale_since) == (verdict != "approve")


def test_an_answer_to_a_phase_that_has_gone_on_changes_nothing(bench: Bench) -> None:
    run = at_the_gate(bench)
    gate = Gate.objects.get()
    answer_gate(
        gate_id=gate.pk, author=bench.reviewer, verdict="approve", answers={}, reason="", seen_digest=gate.digest
    )
    cancel_run(run=run, author=bench.operator)
    assert apply_gate(gate.pk)
    assert states(run)["2"] == "failed" and states(run)["3a (alpha)"] == "pending"


def test_applying_twice_changes_nothing(bench: Bench) -> None:
    run = at_the_gate(bench)
    gate = bench.approve("look")
    before = states(run)
    KEEPER.applied(gate, gate.decision)
    assert states(run) == before


def test_skipping_while_the_answer_is_applied_is_refused(bench: Bench) -> None:
    run = at_the_gate(bench)
    Gate.objects.update(state="applying")
    with pytest.raises(StaleState, match="just being applied"):
        skip_phase(phase=phase_of(run, "2"), author=bench.operator, reason="x")


def test_gates_of_a_cancelled_run_are_not_reopened(bench: Bench) -> None:
    run = at_the_gate(bench)
    cancel_run(run=run, author=bench.operator)
    with pytest.raises(InvalidTransition, match="cancelled: its gates are not asked again"):
        reopen_gate(gate_id=Gate.objects.get().pk, author=bench.reviewer, reason="a last look")
    assert Gate.objects.count() == 1


def test_a_gate_reopened_before_its_phase_comes_again_shows_what_there_is_then(bench: Bench) -> None:
    run = at_the_gate(bench)
    bench.approve("look")
    bench.drive()
    run_again_from(phase=phase_of(run, "1"), author=bench.operator)
    early = reopen_gate(gate_id=Gate.objects.get().pk, author=bench.reviewer, reason="too soon")
    bench.drive()
    early.refresh_from_db()
    assert early.state == "withdrawn"
    late = Gate.objects.get(state="open")
    assert late.iteration == 3 and phase_of(run, "2").state == "checkpoint" and phase_of(run, "2").reason == ""
