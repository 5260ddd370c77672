"""Phases whose job has left the queue, and nobody knows how it ended: what lies on disk says whether they are done."""

from django.db import transaction
from django.db.models import F, Q

from jobs.models import Job
from jobs.states import JobState
from record.logkeys import about
from runs.models import Phase, Run
from runs.pipeline.spec import spec_of
from runs.services.board import Board, lock_run
from runs.services.ending import conclude
from runs.services.engine import advance
from runs.services.looking import Gathered, is_proof, look_at
from runs.services.moves import move
from runs.services.steps import PURPOSE
from runs.states import PhaseState, RunState


def unsettled_phases(target_id: int) -> list[int]:
    """Keys of the phases of a target whose state and their job's don't fit, or whose outputs may say more by now.

    Those that run with a lost job; those that rest, and whose items were all there when they were counted last, or
    whose job is heard of again.
    """
    jobs = Job.objects.live().filter(target_id=target_id, purpose=PURPOSE)
    lost = Q(uuid__in=jobs.filter(state=JobState.LOST).values("subject_uuid"))
    heard_of = Q(uuid__in=jobs.exclude(state=JobState.LOST).values("subject_uuid"))
    phases = Phase.objects.filter(run__target=target_id, run__archived_at=None).exclude(run__state=RunState.CANCELLED)
    running = phases.filter(lost, state=PhaseState.RUNNING)
    resting = phases.awaiting_end().filter(heard_of | Q(lost, items_done__gte=F("items_total")))
    return list((running | resting).order_by("pk").values_list("pk", flat=True))


def settle_end(phase_id: int) -> bool:
    """Bring a phase to where its job is; whether it moved.

    With a lost job it becomes verifying and rests, until its outputs are complete (then it is done), the job is heard
    of again (then it runs), or the job's end becomes known. The job itself stays lost: what is heard of it later still
    counts for it, and changes nothing of a phase that is done. Raises AdapterError where the folder can't be read at
    the moment.
    """
    phase = Phase.objects.with_run().filter(pk=phase_id).first()
    if phase is None:
        return False
    with about(run=phase.run.uuid, target=phase.run.target.name):
        moved = _follow_job(phase)
        gathered = _proof(phase)
        return (gathered is not None and _conclude(phase, gathered)) or moved


def _follow_job(phase: Phase) -> bool:
    """Rest where the job is lost, run where it is heard of again; whether the phase moved."""
    with transaction.atomic():
        board = Board.of_phase(_lock(phase), phase.pk)
        current = board.find(phase.pk)
        job = _live_job(current) if current else None
        if current is None or job is None or board.run.state == RunState.CANCELLED:
            return False
        lost = job.state == JobState.LOST
        if lost and current.state == PhaseState.RUNNING:
            why = f"Job {job.native_id} has left the queue, and nobody can say how it ended."
            move(current, "await_end", message=f"{current.named}: {why}", reason=f"{why} {_what_then(current, job)}")
            return True
        if not lost and current.awaits_end:
            move(current, "go_on", message=f"{current.named}: job {job.native_id} is heard of again", reason="")
            return True
    return False


def _what_then(phase: Phase, job: Job) -> str:
    spec = spec_of(phase.run.snapshot).by_key[phase.key]
    if not _is_last_step(phase, job):
        return "It waits for word of the job, or for a person: another script comes after it."
    if spec.in_place or spec.unchecked or not spec.outputs:
        return "What lies on disk can't prove that it is done: it waits for word of the job, or for a person."
    return "It is done once its outputs are all there; until then it waits for word of the job, or for a person."


def _proof(phase: Phase) -> Gathered | None:
    """What lies on disk, where it proves that a phase with a lost job is done."""
    job = _live_job(phase)
    if job is None or job.state != JobState.LOST or not _is_last_step(phase, job):
        return None
    spec = spec_of(phase.run.snapshot)
    gathered = look_at(phase, spec)
    return gathered if is_proof(spec.by_key[phase.key], gathered.finding) else None


def _conclude(phase: Phase, gathered: Gathered) -> bool:
    with transaction.atomic():
        run = _lock(phase)
        board = Board.at_hand(run)
        current = board.find(phase.pk)
        job = _live_job(current) if current else None
        if current is None or job is None or job.state != JobState.LOST or run.state == RunState.CANCELLED:
            return False  # while it was looked at, something else was heard of it
        message = f"{current.named}: nobody can say how job {job.native_id} ended, and its outputs are all there"
        conclude(current, gathered, message=message)
        advance(run, board)
    return True


def _lock(phase: Phase) -> Run:
    return lock_run(phase.run_id)


def _live_job(phase: Phase) -> Job | None:
    """The job whose end the phase waits for."""
    if not phase.is_at_work:
        return None
    jobs = Job.objects.live().filter(subject_uuid=phase.uuid, attempt=phase.attempt, purpose=PURPOSE)
    return jobs.order_by("-id").first()


def _is_last_step(phase: Phase, job: Job) -> bool:
    return job.step == len(spec_of(phase.run.snapshot).by_key[phase.key].scripts) - 1
