"""A state table: each rule, what has no rule, and a writer who came second. A lab's slug serves as the state."""

import pytest
from django.db import IntegrityError, transaction
from django.db.models import Value
from django.db.models.functions import Concat

from record.errors import InvalidTransition, StaleState
from record.kinds import KINDS
from record.models import Event, Lab
from record.services import Subject
from record.tests.factories import make_lab, make_subject
from record.transitions import Machine, rule

RULES = [
    rule("start", "pending stopped", "running"),
    rule("finish", "running", "done"),
    rule("stop", "pending running", "stopped"),
    rule("retry", "stopped", "pending"),
    rule("retry", "done", "running"),  # one event, another source, another target
]
MACHINE = Machine("phase", RULES, field="slug")
STATES = ["pending", "running", "done", "stopped"]
NEXT = {(source, each.event): each.target for each in RULES for source in each.sources}
PAIRS = [(state, event) for state in STATES for event in MACHINE.events()]


def apply(row: Lab, event: str, **kwargs: object) -> Subject:
    subject = make_subject("phase align")
    MACHINE.apply(row, event, lab_id=row.pk, subject=subject, **kwargs)  # type: ignore[arg-type]
    return subject


@pytest.mark.django_db
@pytest.mark.parametrize(("state", "event"), PAIRS)
def test_every_state_with_every_event(state: str, event: str) -> None:
    row = make_lab(state)
    if target := NEXT.get((state, event)):
        assert MACHINE.allows(state, event) and MACHINE.target(state, event) == target
        subject = apply(row, event, message="went on", data={"attempt": 2, "to": "elsewhere"})
        assert row.slug == target == Lab.objects.get().slug
        logged = Event.objects.get()
        assert (logged.kind, logged.message, logged.lab_id) == (f"phase.{event}", "went on", row.pk)
        assert (logged.subject_uuid, logged.root_uuid) == (subject.uuid, subject.root)
        assert logged.data == {"attempt": 2, "from": state, "to": target}
    else:
        assert not MACHINE.allows(state, event)
        with pytest.raises(KeyError):
            MACHINE.target(state, event)
        with pytest.raises(InvalidTransition, match=f"phase align is {state}: it can't {event} now") as refusal:
            apply(row, event)
        assert refusal.value.extra == {"state": state, "event": event}
        assert row.slug == state == Lab.objects.get().slug and not Event.objects.exists()


@pytest.mark.django_db
def test_of_two_writers_the_second_is_told() -> None:
    mine = make_lab("pending")
    theirs = Lab.objects.get()
    apply(theirs, "start")
    with pytest.raises(StaleState, match="phase align was changed by someone else"):
        apply(mine, "start", name="mine")
    assert (mine.slug, mine.name) == ("pending", "Pending")  # as it was, to be told of
    assert Event.objects.count() == 1


@pytest.mark.django_db
def test_another_condition_counts_as_much_as_the_state() -> None:
    row = make_lab("pending")
    with pytest.raises(StaleState):
        apply(row, "start", where={"name": "Another"})
    apply(row, "start", where={"name": "Pending"})
    assert row.slug == "running"


@pytest.mark.django_db
def test_changes_go_with_the_state_and_expressions_come_out_computed() -> None:
    row = make_lab("pending")
    apply(row, "start", name=Concat("name", Value(" again")))
    assert row.name == "Pending again" == Lab.objects.get().name


@pytest.mark.django_db
def test_what_fails_leaves_neither_state_nor_event() -> None:
    make_lab("other")
    row = make_lab("pending")
    with pytest.raises(IntegrityError), transaction.atomic():
        apply(row, "start", name="Other")
    assert Lab.objects.get(pk=row.pk).slug == "pending" and not Event.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_outside_a_transaction_it_is_a_programming_error() -> None:
    row = make_lab("pending")
    with pytest.raises(RuntimeError, match="phase.start belongs in a transaction"):
        apply(row, "start")


def test_two_rules_for_one_state_and_event_are_refused() -> None:
    with pytest.raises(ValueError, match="two rules of phase for start"):
        Machine("phase", [rule("start", "pending", "running"), rule("start", "pending stopped", "done")])


def test_the_events_of_this_table_are_kinds_of_events() -> None:
    assert {f"phase.{event}" for event in MACHINE.events()} <= set(KINDS)
