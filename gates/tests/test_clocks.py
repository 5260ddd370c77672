"""Time-outs, escalation, downtime: the sweep closes a gate, not the clock on the wall."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine

from gates.errors import GateClosed
from gates.models import Gate, SweepBeat
from gates.services import escalate_gate, extend_deadlines, time_out_gate
from gates.sweep import close_overdue, escalate_due
from gates.tests.doubles import Keeper, Threshold, answer, ask
from record.access import Role
from record.errors import NotAllowed
from record.models import Decision, Event, Lab
from record.tests.factories import People, make_person

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


@pytest.fixture
def clock() -> Any:
    with time_machine.travel(START, tick=False) as traveller:
        yield traveller


@pytest.fixture
def tick(clock: Any) -> Callable[[float], int]:
    """Let seconds pass as they do while the service runs: with a look at the clocks each minute; how many closed."""

    def passing(seconds: float) -> int:
        closed = close_overdue()
        while seconds > 0:
            clock.shift(min(60, seconds))
            seconds -= 60
            closed += close_overdue()
        return closed

    return passing


def test_a_gate_times_out_and_blocks(lab: Lab, people: People, tick: Callable, keeper: Keeper) -> None:
    gate = ask(lab, policy={"due_s": 3600})
    assert gate.due_at == START + timedelta(hours=1)

    assert tick(3590) == 0
    assert tick(10) == 1

    gate.refresh_from_db()
    assert (gate.state, gate.decision, keeper.calls) == ("timed_out", None, [("closed", gate.pk)])
    assert "nobody answered in time" in Event.objects.get(kind="gate.time_out").message
    with pytest.raises(GateClosed, match=r"timed out on 2 March 2026 at 10:00 UTC; reopen it to decide"):
        answer(gate, people.reviewer)


def test_without_a_deadline_a_gate_waits(lab: Lab, tick: Callable) -> None:
    ask(lab)

    assert tick(600) == 0 and Gate.objects.get().state == "open"


def test_an_answer_past_the_deadline_wins_if_it_comes_before_the_sweep(lab: Lab, people: People, clock: Any) -> None:
    gate = ask(lab, policy={"due_s": 60})
    clock.shift(61)

    assert answer(gate, people.reviewer).decision
    assert close_overdue() == 0 and time_out_gate(gate.pk) is False


def test_a_late_timer_does_nothing(lab: Lab, tick: Callable, keeper: Keeper) -> None:
    gate = ask(lab, policy={"due_s": 60})
    tick(60)

    assert time_out_gate(gate.pk) is False and escalate_gate(gate.pk) is False
    assert keeper.calls == [("closed", gate.pk)]


def test_a_timer_before_its_time_does_nothing(lab: Lab, clock: Any) -> None:
    gate = ask(lab, policy={"due_s": 60, "escalate_after_s": 30, "escalate_to": "administrator"})

    assert time_out_gate(gate.pk) is False and escalate_gate(gate.pk) is False
    assert Gate.objects.get().state == "open"


@pytest.mark.parametrize(
    ("on_timeout", "verdict", "answers"),
    [
        ("approve", "approve", {"threshold": 2.5, "remark": ""}),
        ({"verdict": "approve", "answers": {"threshold": 4}}, "approve", {"threshold": 4, "remark": ""}),
        ({"verdict": "reject", "answers": {}}, "reject", {"threshold": None, "remark": ""}),
    ],
)
def test_a_stated_default_is_recorded_as_the_policys(
    lab: Lab, tick: Callable, on_timeout: Any, verdict: str, answers: dict
) -> None:
    gate = ask(lab, policy={"due_s": 60, "on_timeout": on_timeout, "reason": "always"})

    assert tick(60) == 1

    gate.refresh_from_db()
    decision = Decision.objects.get()
    assert (gate.state, gate.decision) == ("decided", decision)
    assert (decision.actor_kind, decision.actor, decision.door) == ("policy", None, "policy")
    assert (decision.verdict, decision.statement.answers) == (verdict, answers)
    assert decision.statement.reason == "Nobody answered in time." and not gate.ballots.exists()


@pytest.mark.parametrize("on_timeout", ["bless", {"verdict": "approve", "answers": {"threshold": 99}}])
def test_a_default_that_does_not_hold_decides_nothing(lab: Lab, tick: Callable, on_timeout: Any) -> None:
    gate = ask(lab, policy={"due_s": 60, "on_timeout": on_timeout})

    assert tick(60) == 1

    gate.refresh_from_db()
    assert gate.state == "timed_out" and "the stated default doesn't hold" in gate.error


def test_a_spoilt_policy_decides_nothing(lab: Lab, tick: Callable) -> None:
    gate = ask(lab, policy={"due_s": 60, "on_timeout": "approve"})
    Gate.objects.update(policy={"quorum": "many"})

    assert tick(60) == 1

    gate.refresh_from_db()
    assert gate.state == "timed_out" and "policy can't be used" in gate.error


def test_the_suggestion_as_default_leaves_out_what_the_form_does_not_ask(
    lab: Lab, tick: Callable, threshold: Threshold
) -> None:
    threshold.suggestion = {"threshold": 2.5, "items": {"TS_001": {"verdict": "good", "reason": ""}}}
    ask(lab, policy={"due_s": 60, "on_timeout": "approve"})

    assert tick(60) == 1 and Decision.objects.get().verdict == "approve"


def test_a_gate_escalates_once_and_then_others_may_answer(lab: Lab, people: People, clock: Any) -> None:
    make_person("ada", lab, Role.REVIEWER)
    gate = ask(lab, policy={"who": ["ada"], "escalate_after_s": 600, "escalate_to": ["reviewer"]})
    with pytest.raises(NotAllowed):
        answer(gate, people.reviewer)
    clock.shift(599)
    assert escalate_due() == 0
    clock.shift(1)

    assert escalate_due() == 1
    assert escalate_due() == 0

    assert Event.objects.get(kind="gate.escalate").data == {"to": "reviewer"}
    assert answer(gate, people.reviewer).decision


def test_downtime_extends_deadlines(lab: Lab, tick: Callable, clock: Any) -> None:
    gate = ask(lab, policy={"due_s": 3600, "escalate_after_s": 1800, "escalate_to": "administrator"})
    tick(600)
    clock.shift(8 * 3600)

    assert close_overdue() == 0

    gate.refresh_from_db()
    assert gate.due_at == START + timedelta(hours=9) and gate.escalates_at == START + timedelta(hours=8.5)
    assert tick(2990) == 0 and tick(10) == 1


def test_a_gate_that_opened_within_the_downtime_is_moved_by_its_own_part(lab: Lab, clock: Any) -> None:
    close_overdue()
    clock.shift(3600)
    gate = ask(lab, policy={"due_s": 1800})
    clock.shift(7200)

    assert close_overdue() == 0

    gate.refresh_from_db()
    assert gate.due_at == START + timedelta(seconds=3600 + 1800 + 7200)


def test_the_same_downtime_is_not_given_twice(lab: Lab, tick: Callable, clock: Any) -> None:
    gate = ask(lab, policy={"due_s": 3600})
    tick(60)
    clock.shift(7200)

    extend_deadlines(gap=timedelta(seconds=7200))
    extend_deadlines(gap=timedelta(seconds=7200))
    close_overdue()

    gate.refresh_from_db()
    assert gate.due_at == START + timedelta(seconds=3600 + 7200)


def test_the_beat_is_written_seldom(lab: Lab, clock: Any, django_assert_num_queries: Any) -> None:
    close_overdue()
    assert SweepBeat.objects.get().at == START

    clock.shift(5)
    with django_assert_num_queries(2):
        close_overdue()

    assert SweepBeat.objects.get().at == START
