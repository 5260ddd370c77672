"""What was written with a decision and struck is gone from messages too."""

from typing import Any

import pytest

from record import copies
from record.models import Door, Event, Lab
from record.services import Author, record_event, strike_statement
from record.tests.factories import People, decide, make_subject

SECRET = "the password is hunter2, " + 60 * "and so on, "


@pytest.fixture(autouse=True)
def _no_upper_rooms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "_PLACES", [])


def test_messages_that_repeat_it_are_cut(lab: Lab, people: People) -> None:
    subject = make_subject()
    decision = decide(lab, people.operator, subject=subject, verdict="skip", reason=SECRET)
    said: dict[str, Any] = {"lab_id": lab.pk, "kind": "phase.skip", "subject": subject}
    record_event(**said, message=f"phase 3: skipped by operator: {SECRET}", decision=decision)
    record_event(**said, message=f"gate withdrawn by operator: {SECRET * 3}")
    record_event(**said, message="phase 3: skipped by operator: for another reason")
    record_event(**said | {"subject": make_subject()}, message=f"elsewhere: {SECRET}")

    author = Author.person(people.administrator, Door.CLI)
    strike_statement(decision=decision, author=author, reason="it held a password")

    messages = list(Event.objects.order_by("id").values_list("message", flat=True))
    assert messages[:3] == [
        "phase 3: skipped by operator: (struck)",
        "gate withdrawn by operator: (struck)",
        "phase 3: skipped by operator: for another reason",
    ]
    assert "hunter2" in messages[3], "what is about something else is not touched"
