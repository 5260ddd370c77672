"""Maintenance: nothing new is started on any target until it is over. What runs goes on; decisions are taken and kept.

A claim locks its target's row and then asks whether the installation is being drained; a drain locks all targets before
it is written. So a claim comes wholly before it, and is counted as under way, or finds it.
"""

from uuid import NAMESPACE_DNS, uuid5

from django.db import transaction
from django.utils import timezone

from jobs.models import Drain, Job, Target
from jobs.states import JobState
from jobs.wake import wake_on_commit
from record.models import Lab
from record.prepared import Prepared
from record.services import Subject, record_event

_DRAIN = Prepared(lambda: Drain.objects.order_by("pk")[:1])
INSTALLATION = Subject("installation", uuid5(NAMESPACE_DNS, "installation"), "this installation")


def draining() -> Drain | None:
    """The drain that goes on; None while work may start."""
    return _DRAIN.first()


def begin_drain(*, reason: str) -> Drain:
    """Start nothing new anywhere after this has committed; one that goes on already only gets the new reason."""
    with transaction.atomic():
        list(Target.objects.select_for_update(no_key=True).order_by("pk").values_list("pk", flat=True))
        drain, _ = Drain.objects.update_or_create(
            pk=1, defaults={"reason": reason[:500]}, create_defaults={"reason": reason[:500], "since": timezone.now()}
        )
        _tell("installation.drain", f"Nothing new is started: {reason}")
    return drain


def end_drain() -> bool:
    """Let work start again; False where nothing was being drained."""
    with transaction.atomic():
        gone, _ = Drain.objects.all().delete()
        if gone:
            _tell("installation.resume", "Work goes on.")
            wake_on_commit()
    return bool(gone)


def being_submitted() -> int:
    """Jobs that are being handed over just now: claimed before the drain, not known to run yet.

    Those that nobody holds wait for another try, before which the drain is seen.
    """
    return Job.objects.live().filter(state=JobState.SUBMITTING).exclude(holder="").count()


def still_away() -> int:
    """Jobs of which something may be out there."""
    return Job.objects.away().count()


def _tell(kind: str, message: str) -> None:
    for lab in Lab.objects.all():
        record_event(lab_id=lab.pk, kind=kind, subject=INSTALLATION, message=message)
