"""Whose hands a job is in: claims, take-overs and endings, each by compare-and-set on state and generation."""

import copy
import logging
from contextlib import suppress
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Count, QuerySet
from django.utils import timezone

from jobs.drain import draining
from jobs.endings import Ending
from jobs.faults import point
from jobs.final import FinalHandler, handler, lock_for
from jobs.models import Job, Target, TargetKind
from jobs.states import JOB
from record.errors import StaleState
from record.models import Event
from record.prepared import Prepared

log = logging.getLogger(__name__)

LONGEST_WAIT_S = 300
KEPT_BACK, KEPT_BACK_S = "kept_back", 10


def _target_to_claim_at(pk: Any) -> QuerySet[Target]:
    """The target, if jobs may be started there, locked against others who claim."""
    targets = Target.objects.filter(pk=pk, paused=False, archived_at=None).order_by()
    if connection.features.has_select_for_update:
        targets = targets.select_for_update(no_key=True)  # planning a job refers to its target, and must not wait
    return targets


_TARGET = Prepared(_target_to_claim_at)
_PLANNED = Prepared(lambda target: Job.objects.planned().filter(target=target).values_list("pk", flat=True)[:2])
_AWAY = Prepared(
    lambda target: (
        Job.objects.away()
        .filter(target=target)
        .order_by()
        .values("target")
        .annotate(jobs=Count("pk"))
        .values_list("jobs", flat=True)
    )
)


def local_targets(host: str) -> list[Target]:
    """The targets whose jobs this host runs."""
    return list(Target.objects.filter(kind=TargetKind.LOCAL, host=host))


def claim_due(*, targets: list[Target], holder: str, most: int | None = None) -> list[Job]:
    """Take up what is planned and has a slot, oldest first, in one short transaction; the jobs that are ours now.

    At each target at most `most`.
    """
    open_ids = [target.pk for target in targets if target.archived_at is None and _PLANNED.all(target.pk)]
    if not open_ids:
        return []
    with transaction.atomic():
        return [job for pk in open_ids for job in _claim_at(pk, holder, most)]


def claim_planned(job: Job, *, holder: str) -> bool:
    """Take up a job in the transaction that has just planned it; False where it has to wait for its turn or a slot."""
    target = _TARGET.first(job.target_id)
    if target is None or draining() or _PLANNED.all(target.pk) != [job.pk] or _free_slots(target) < 1:
        return False
    job.target = target
    _claim(job, holder)
    return True


def take_over(job: Job, *, holder: str, wait_s: float = 0, reason: str = "") -> None:
    """Become the submitter of a job whose submitter is gone, or whose guard died before the script began.

    With `wait_s` nothing is done about it for so long. Raises StaleState where another was first.
    """
    with transaction.atomic():
        JOB.apply(
            job,
            "reclaim",
            lab_id=job.lab_id,
            subject=job.subject(),
            data={"generation": job.generation + 1, "before": job.holder},
            where={"generation": job.generation},
            generation=job.generation + 1,
            holder=holder,
            lease_until=timezone.now() + timedelta(seconds=wait_s or settings.JOB_CLAIM_LEASE_S),
            native_id="",
            reason=reason[:1000],
        )


def wait_longer(job: Job, reason: str) -> None:
    """Leave a job that can't be handed over just now, saying why; it is tried again after a time that grows."""
    wait_s = _growing_wait_s(job)
    _leave(job, f"{reason} It is tried again in {wait_s} s.", wait_s, holder=job.holder)


def let_go(job: Job, reason: str, *, wait_s: float = 0) -> None:
    """Take our hands off a job that was claimed and is not being handed over, saying why; nothing is done for so long.

    Without `wait_s` for a time that grows. Nobody holds it meanwhile: it is not counted as being handed over.
    """
    words = reason if wait_s else f"{reason} It is tried again in {_growing_wait_s(job)} s."
    _leave(job, words, wait_s or _growing_wait_s(job), holder="")


def kept_back(job: Job) -> bool:
    """Whether a claimed job must not be handed over now, since its run or its target was paused after the claim, or
    nothing is started anywhere. If so it is let go, marked, and asked for again after 10 s.

    To be asked before it is handed over anew, once it is sure that nobody runs it; a first attempt comes with the
    claim, which asks the same.
    """
    why = _why_not_now(job)
    if why:
        let_go(job, f"It is kept back: {why}.", wait_s=KEPT_BACK_S)
    if bool(why) != waits_for_leave(job):
        job.native_raw = {name: value for name, value in job.native_raw.items() if name != KEPT_BACK}
        job.native_raw |= {KEPT_BACK: True} if why else {}
        Job.objects.live().filter(pk=job.pk, generation=job.generation).update(native_raw=job.native_raw)
    return bool(why)


def waits_for_leave(job: Job) -> bool:
    """Whether it was looked for and kept back, so that nothing is left to be done but to ask again."""
    return bool(job.native_raw.get(KEPT_BACK)) and not job.cancel_requested_at


def record_running(job: Job, native_id: str) -> None:
    """Write down who runs a job. Raises StaleState where it was taken over from us."""
    with transaction.atomic():
        JOB.apply(
            job,
            "start",
            lab_id=job.lab_id,
            subject=job.subject(),
            data={"native_id": native_id, "generation": job.generation},
            where={"generation": job.generation},
            native_id=native_id,
            submitted_at=timezone.now(),
            started_at=timezone.now(),
            reason="",
        )
    point("recorded", job.token)
    log.info("job %s (%s) runs as %s", job.token, job.name, native_id)


def adopt(job: Job, native_id: str) -> None:
    """Follow another guard than the one we started: it was quicker, and it is the one that runs the script."""
    if Job.objects.live().filter(pk=job.pk, generation=job.generation).update(native_id=native_id) == 1:
        log.info("job %s is run by %s, not by %s", job.token, native_id, job.native_id)
        job.native_id = native_id


def why_cancelled(job: Job) -> str:
    """In words, who asked for a job's end and why; "" where nobody did. By the log: its reason is written over."""
    if not job.cancel_requested_at:
        return ""
    asked = Event.objects.filter(subject_uuid=job.uuid, kind="job.request_cancel").order_by("-id")
    return asked.values_list("message", flat=True).first() or "Cancelled."


def note_stopping(job: Job, event: str, message: str) -> None:
    """Write down why a job is being ended, before anything is done to it: a restart of ours must not forget it."""
    note = {"event": event, "message": message[:1000], "at": timezone.now().isoformat()}
    if Job.objects.live().filter(pk=job.pk).update(ending=note, reason=f"Being ended. {message}"[:1000]):
        job.ending = note


def say(job: Job, reason: str) -> None:
    """Tell why a job is as it is; written only where it changed."""
    if job.reason != reason[:1000]:
        job.reason = reason[:1000]
        Job.objects.live().filter(pk=job.pk).update(reason=job.reason)


def finish_job(job: Job, ending: Ending) -> bool:
    """Write down how a job ended and do what follows, in one transaction; False where another was quicker.

    If what follows fails, the end is kept all the same and the sweep tries the rest again.
    """
    changes: dict[str, Any] = {
        "exit_code": ending.exit_code,
        "reason": ending.reason[:1000],
        "ended_at": ending.ended_at or timezone.now(),
    }
    follower = handler(job.on_final) if job.on_final else None
    ready, gathered = _gather(job, follower, ending.event, changes)
    point("before_final", job.token)
    try:
        with transaction.atomic():
            lock_for(follower if ready else None, job)
            JOB.apply(
                job,
                ending.event,
                lab_id=job.lab_id,
                subject=job.subject(),
                message=f"{job.subject().label}: {ending.reason}" if ending.reason else "",
                data={"exit_code": ending.exit_code},
                where={"generation": job.generation},
                final_handled=ready,
                **changes,
            )
            if ready and follower:
                _follow_up(job, follower, gathered)
            point("final_before_commit", job.token)
    except StaleState:
        return False
    point("final_recorded", job.token)
    log.info("job %s (%s) %s %s", job.token, job.name, job.state, ending.reason)
    return True


def _why_not_now(job: Job) -> str:
    rows = Job.objects.filter(pk=job.pk)
    held, paused, archived_at = rows.values_list("held", "target__paused", "target__archived_at").get()
    whys = {"its run is paused": held, "its target is paused": paused, "its target is archived": bool(archived_at)}
    drain = draining()
    whys[f"nothing is started for now ({drain.reason if drain else ''})"] = drain is not None
    return next((words for words, holds in whys.items() if holds), "")


def _growing_wait_s(job: Job) -> int:
    return min(LONGEST_WAIT_S, 2 ** min(job.generation, 10))


def _leave(job: Job, reason: str, wait_s: float, *, holder: str) -> None:
    job.reason, job.holder = reason[:1000], holder
    job.lease_until = timezone.now() + timedelta(seconds=wait_s)
    Job.objects.live().filter(pk=job.pk, generation=job.generation).update(
        reason=job.reason, lease_until=job.lease_until, holder=job.holder
    )


def _claim_at(target_id: int, holder: str, most: int | None) -> list[Job]:
    target = _TARGET.first(target_id)
    if target is None or draining():  # asked with the target locked: see jobs.drain
        return []
    free = _free_slots(target)
    jobs = list(Job.objects.planned().filter(target=target)[: max(0, free if most is None else min(free, most))])
    claimed = []
    for job in jobs:
        job.target = target
        with suppress(StaleState):  # held back or cancelled just now: the next one may still go
            _claim(job, holder)
            claimed.append(job)
    return claimed


def _free_slots(target: Target) -> int:
    return target.slots - (_AWAY.first(target.pk) or 0)


def _claim(job: Job, holder: str) -> None:
    JOB.apply(
        job,
        "claim",
        lab_id=job.lab_id,
        subject=job.subject(),
        data={"generation": job.generation + 1},
        where={"held": False},
        generation=job.generation + 1,
        holder=holder,
        lease_until=timezone.now() + timedelta(seconds=settings.JOB_CLAIM_LEASE_S),
    )
    point("claim_before_commit", job.token)


def _gather(job: Job, follower: FinalHandler | None, event: str, changes: dict[str, Any]) -> tuple[bool, Any]:
    """(whether what follows can be done now, what its handler gathered from the job as it will be)."""
    if follower is None:
        return not job.on_final, None
    ended = copy.copy(job)
    for name, value in ({"state": JOB.target(job.state, event)} | changes).items():
        setattr(ended, name, value)
    try:
        return True, follower.gather(ended)
    except Exception:
        log.exception("job %s ended, but what it left can't be gathered yet; it is tried again", job.token)
        return False, None


def _follow_up(job: Job, follower: FinalHandler, gathered: Any) -> None:
    """What follows, in a savepoint: if it fails, the end stays written and the rest is marked as still to be done."""
    try:
        with transaction.atomic():
            follower.apply(job, gathered)
    except Exception:
        Job.objects.filter(pk=job.pk).update(final_handled=False)
        job.final_handled = False
        log.exception("job %s ended, but what follows failed; it is tried again", job.token)
