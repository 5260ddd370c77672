"""What was decided is written back once in effect, however often it is tried."""

from datetime import timedelta
from unittest.mock import patch

import pytest
import time_machine
from django.conf import settings
from django.db import transaction
from django.utils import timezone

from gates.models import Gate
from gates.services import apply_gate, reopen_gate, retry_applying
from gates.services.applying import MAX_ATTEMPTS
from gates.sweep import apply_decided
from gates.tests.doubles import Keeper, Threshold, answer, ask
from record.errors import InvalidTransition, NotAllowed
from record.models import Decision, Door, Event, Lab
from record.services import Author
from record.tests.factories import People


@pytest.fixture
def gate(lab: Lab, people: People) -> Gate:
    """A gate that has been approved."""
    gate = ask(lab)
    answer(gate, people.reviewer)
    gate.refresh_from_db()
    return gate


def later(seconds: float) -> time_machine.travel:
    return time_machine.travel(timezone.now() + timedelta(seconds=seconds), tick=False)


def test_the_sweep_applies_what_was_decided(gate: Gate, keeper: Keeper, threshold: Threshold) -> None:
    assert apply_decided() == 1

    gate.refresh_from_db()
    assert gate.state == "applied" and gate.ended_at and gate.error == ""
    assert threshold.persisted == [(str(gate.decision.uuid), "approve")]
    assert keeper.calls == [("applied", gate.pk)]


def test_a_second_time_does_nothing(gate: Gate, keeper: Keeper, threshold: Threshold) -> None:
    apply_decided()

    assert apply_decided() == 0 and apply_gate(gate.pk) is False

    assert len(threshold.persisted) == 1 and len(keeper.calls) == 1


def test_a_rejection_is_applied_like_any_result(lab: Lab, people: People, threshold: Threshold, keeper: Keeper) -> None:
    gate = ask(lab)
    answer(gate, people.reviewer, "reject", answers={}, reason="Noise.")

    assert apply_decided() == 1
    assert threshold.persisted[0][1] == "reject" and keeper.calls == [("applied", gate.pk)]


def test_a_failure_is_kept_in_words_and_tried_again_after_a_pause(gate: Gate, threshold: Threshold) -> None:
    threshold.failures = 2

    assert apply_decided() == 0
    gate.refresh_from_db()
    assert gate.state == "apply_failed" and "disk is full" in gate.error
    assert apply_decided() == 0 and threshold.failures == 1, "not before its pause is over"

    with later(6):
        assert apply_decided() == 0
    with later(17):
        assert apply_decided() == 1
    gate.refresh_from_db()
    assert (gate.state, gate.error, Decision.objects.count()) == ("applied", "", 1)
    failures = Event.objects.filter(kind="gate.fail_applying")
    assert failures.count() == 2 and "could not be applied" in failures[0].message


def test_after_many_failures_only_a_person_tries_again(gate: Gate, people: People, threshold: Threshold) -> None:
    threshold.failures = MAX_ATTEMPTS
    for attempt in range(MAX_ATTEMPTS):
        with later(700 * attempt):
            apply_decided()
    with later(100_000):
        assert apply_decided() == 0
    gate.refresh_from_db()
    assert gate.state == "apply_failed" and gate.apply_after is None

    with pytest.raises(NotAllowed):
        retry_applying(gate_id=gate.pk, author=Author.person(people.viewer, Door.WEB))
    retry_applying(gate_id=gate.pk, author=Author.person(people.operator, Door.WEB))

    assert apply_decided() == 1
    with pytest.raises(InvalidTransition):
        retry_applying(gate_id=gate.pk, author=Author.person(people.operator, Door.WEB))


def test_what_follows_fails_with_the_gate(gate: Gate, keeper: Keeper, threshold: Threshold) -> None:
    keeper.failures = 1

    assert apply_decided() == 0
    gate.refresh_from_db()
    assert gate.state == "apply_failed" and gate.error == "RuntimeError: the phase could not go on"

    with later(6):
        assert apply_decided() == 1
    assert [call for call, _ in keeper.calls] == ["applied", "applied"]
    assert threshold.persisted == [(str(gate.decision.uuid), "approve")] * 2, "the same decision, so it can tell"


class Killed(BaseException):
    """What a process that is killed does not live to handle."""


def test_killed_between_persisting_and_recording(gate: Gate, keeper: Keeper, threshold: Threshold) -> None:
    with patch("gates.services.applying._finish", side_effect=Killed), pytest.raises(Killed):
        apply_gate(gate.pk)
    gate.refresh_from_db()
    assert gate.state == "applying" and keeper.calls == []

    assert apply_decided() == 0, "another may still be at it"
    with later(settings.GATE_APPLY_LEASE_S + 1):
        assert apply_decided() == 1

    gate.refresh_from_db()
    assert gate.state == "applied" and keeper.calls == [("applied", gate.pk)]
    assert len({uuid for uuid, _ in threshold.persisted}) == 1


def test_what_kills_whoever_applies_it_is_not_tried_for_ever(gate: Gate, people: People) -> None:
    for attempt in range(MAX_ATTEMPTS):
        with (
            later((settings.GATE_APPLY_LEASE_S + 1) * attempt),
            patch("gates.services.applying._finish", side_effect=Killed),
            pytest.raises(Killed),
        ):
            apply_decided()
    with later((settings.GATE_APPLY_LEASE_S + 1) * MAX_ATTEMPTS):
        assert apply_decided() == 0

    gate.refresh_from_db()
    assert (gate.state, gate.apply_after) == ("apply_failed", None) and "begun 8 times" in gate.error
    retry_applying(gate_id=gate.pk, author=Author.person(people.operator, Door.WEB))
    assert apply_decided() == 1


def test_killed_while_claiming(gate: Gate) -> None:
    with patch("gates.services.applying.GATE.apply", side_effect=Killed), pytest.raises(Killed):
        apply_gate(gate.pk)

    assert Gate.objects.get().state == "decided" and apply_decided() == 1


def test_one_that_stalled_cannot_finish_after_another_took_over(
    gate: Gate, keeper: Keeper, threshold: Threshold
) -> None:
    persist = threshold.persist

    def stall(gate: Gate, decision: Decision) -> None:
        persist(gate, decision)
        threshold.persist = persist  # type: ignore[method-assign]
        with later(settings.GATE_APPLY_LEASE_S + 1):
            assert apply_gate(gate.pk) is True

    threshold.persist = stall  # type: ignore[method-assign]

    assert apply_gate(gate.pk) is False
    assert keeper.calls == [("applied", gate.pk)]


def test_the_gate_is_no_ones_when_no_keeper_is_installed(gate: Gate) -> None:
    Gate.objects.update(subject_kind="martian")

    assert apply_decided() == 0
    gate.refresh_from_db()
    assert gate.state == "apply_failed" and "'martian'" in gate.error


def test_one_bad_row_stops_no_other(lab: Lab, people: People, threshold: Threshold) -> None:
    gates = [ask(lab) for _ in range(3)]
    for each in gates:
        answer(each, people.reviewer)
    threshold.failures = 1

    assert apply_decided() == 2


def test_what_can_never_be_applied_is_asked_again(gate: Gate, people: People, threshold: Threshold) -> None:
    threshold.failures = 1
    apply_decided()

    fresh = reopen_gate(gate_id=gate.pk, author=Author.person(people.reviewer, Door.WEB), reason="The disk is gone.")

    gate.refresh_from_db()
    assert (gate.state, fresh.state, fresh.iteration) == ("withdrawn", "open", 2)
    answer(fresh, people.reviewer, reason="On the new disk.")
    fresh.refresh_from_db()
    assert fresh.decision.supersedes == gate.decision


def test_nothing_is_woken_before_it_is_committed(gate: Gate, django_capture_on_commit_callbacks) -> None:  # type: ignore[no-untyped-def]
    with (
        patch("jobs.wake.wake_conduct") as wake,
        django_capture_on_commit_callbacks(execute=True),
        transaction.atomic(),
    ):
        apply_gate(gate.pk)
        assert not wake.called
    assert wake.called
