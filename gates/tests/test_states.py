"""Every state meets every event of the table: what the table has no rule for changes nothing."""

import pytest
from django.db import transaction
from django.utils import timezone

from gates.models import Gate
from gates.services import (
    answer_gate,
    apply_gate,
    prepare_gate,
    reopen_gate,
    retry_applying,
    retry_preparing,
    time_out_gate,
    withdraw_gate,
)
from gates.states import ENDED, GATE, GateState
from gates.tests.doubles import ask
from record.errors import ConductorError, InvalidTransition
from record.models import Door, Event, Lab
from record.services import Author
from record.tests.factories import People, decide

EXPECTED = {
    ("preparing", "open"): "open",
    ("preparing", "fail_preparing"): "prepare_failed",
    ("prepare_failed", "retry_preparing"): "preparing",
    ("open", "decide"): "decided",
    ("decided", "begin_applying"): "applying",
    ("applying", "apply"): "applied",
    ("applying", "fail_applying"): "apply_failed",
    ("apply_failed", "retry_applying"): "applying",
    ("open", "time_out"): "timed_out",
    ("preparing", "withdraw"): "withdrawn",
    ("prepare_failed", "withdraw"): "withdrawn",
    ("open", "withdraw"): "withdrawn",
    ("apply_failed", "withdraw"): "withdrawn",
}


@pytest.mark.parametrize("state", GateState.values)
@pytest.mark.parametrize("event", GATE.events())
def test_each_state_with_each_event(lab: Lab, state: str, event: str) -> None:
    gate = ask(lab)
    Gate.objects.update(state=state)
    gate.refresh_from_db()
    before = Event.objects.count()

    with transaction.atomic():
        if (state, event) in EXPECTED:
            GATE.apply(gate, event, lab_id=lab.pk, subject=gate.subject())
        else:
            with pytest.raises(InvalidTransition):
                GATE.apply(gate, event, lab_id=lab.pk, subject=gate.subject())

    gate.refresh_from_db()
    assert gate.state == EXPECTED.get((state, event), state)
    assert Event.objects.count() - before == ((state, event) in EXPECTED)


def test_ended_states_have_no_way_out() -> None:
    assert not [rule for rule in GATE.rules if rule.sources & ENDED]


COMMANDS = {
    "answer": lambda gate, author: answer_gate(
        gate_id=gate.pk, author=author, verdict="approve", answers={"threshold": 2.5}, seen_digest=gate.digest
    ),
    "apply": lambda gate, author: apply_gate(gate.pk),
    "time_out": lambda gate, author: time_out_gate(gate.pk),
    "prepare": lambda gate, author: prepare_gate(gate.pk),
    "reopen": lambda gate, author: reopen_gate(gate_id=gate.pk, author=author, reason="Look again."),
    "withdraw": lambda gate, author: withdraw_gate(gate_id=gate.pk, author=author, reason="Not needed."),
    "retry_preparing": lambda gate, author: retry_preparing(gate_id=gate.pk, author=author),
    "retry_applying": lambda gate, author: retry_applying(gate_id=gate.pk, author=author),
}
MEANS_SOMETHING = {
    "answer": {"open"},
    "apply": {"decided", "applying", "apply_failed"},
    "time_out": {"open"},
    "prepare": {"preparing"},
    "reopen": {"applied", "timed_out", "withdrawn", "apply_failed"},
    "withdraw": {"preparing", "prepare_failed", "open", "apply_failed"},
    "retry_preparing": {"prepare_failed"},
    "retry_applying": {"apply_failed"},
}


@pytest.mark.parametrize("state", GateState.values)
@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_in_each_state(lab: Lab, people: People, state: str, command: str) -> None:
    gate = ask(lab)
    ruled = decide(lab, people.reviewer) if state in {"decided", "applying", "apply_failed", "applied"} else None
    past = timezone.now()
    Gate.objects.update(state=state, due_at=past, apply_after=past, decision=ruled)
    gate.refresh_from_db()

    try:
        done = COMMANDS[command](gate, Author.person(people.administrator, Door.WEB))
    except ConductorError as refused:
        done = False
        assert refused.status == 409 and refused.message
    gate.refresh_from_db()

    means = state in MEANS_SOMETHING[command]
    assert (done is not False) == means
    untouched = gate.state == state and not Gate.objects.filter(iteration=2).exists()
    assert untouched == (not means or command == "retry_applying")
