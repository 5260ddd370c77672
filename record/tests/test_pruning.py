"""The mechanical log is forgotten after a while; what people were told of, and decisions' own events, are not."""

from datetime import timedelta

import pytest
from django.utils import timezone

from record import pruning
from record.models import Event, Lab
from record.pruning import prune_events
from record.services import record_event
from record.tests.factories import People, decide, make_subject


def note(lab: Lab, kind: str, *, days: int, **more: object) -> Event:
    event = record_event(lab_id=lab.pk, kind=kind, subject=make_subject(), **more)  # type: ignore[arg-type]
    Event.objects.filter(pk=event.pk).update(at=timezone.now() - timedelta(days=days))
    return event


def test_old_mechanical_events_go(lab: Lab, people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruning, "ROWS_AT_ONCE", 2)
    decision = decide(lab, people.reviewer)
    kept = [
        note(lab, "run.finish", days=400),
        note(lab, "run.set_conf", days=400, decision=decision),
        note(lab, "job.claim", days=10),
    ]
    for _ in range(5):
        note(lab, "job.claim", days=400)
    kept.append(note(lab, "job.start", days=10))
    before = timezone.now() - timedelta(days=365)

    assert prune_events(before=before, dry_run=True) == 5
    assert Event.objects.filter(kind="job.claim").count() == 6
    assert prune_events(before=before) == 5
    assert set(kept) <= set(Event.objects.all())
    assert Event.objects.filter(kind="job.claim").count() == 1
    assert prune_events(before=before) == 0


def test_it_does_not_walk_through_what_is_young(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruning, "ROWS_AT_ONCE", 2)
    for days in (400, 400, 1, 1, 400):
        note(lab, "job.claim", days=days)
    assert prune_events(before=timezone.now() - timedelta(days=365)) == 2
