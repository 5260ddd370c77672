"""Phases that are done by what lies on disk, where nobody can say how their job ended."""

from django.db import transaction
from django.db.models import F

from jobs.models import Job
from jobs.states import JobState
from record.logkeys import about
from runs.models import Phase
from runs.pipeline.spec import spec_of
from runs.services.board import Board, lock_run
from runs.services.ending import conclude
from runs.services.engine import advance
from runs.services.looking import is_proof, look_at
from runs.services.steps import PURPOSE
from runs.states import PhaseState, RunState


def lost_phases(target_id: int) -> list[int]:
    """Keys of running phases whose last job is lost, and whose items were all there when they were counted last."""
    jobs = Job.objects.filter(target_id=target_id, state=JobState.LOST, purpose=PURPOSE).values("subject_uuid")
    waiting = Phase.objects.filter(uuid__in=jobs, state=PhaseState.RUNNING, run__archived_at=None)
    return list(waiting.filter(items_done__gte=F("items_total")).order_by("pk").values_list("pk", flat=True))


def conclude_lost(phase_id: int) -> bool:
    """Conclude a phase whose job is lost, if its outputs are complete; else it goes on waiting. Whether it did.

    The job itself stays lost: what is heard of it later still counts for it, and changes nothing of the phase. Raises
    AdapterError where the folder can't be read at the moment.
    """
    phase = Phase.objects.with_run().filter(pk=phase_id).first()
    if phase is None:
        return False
    with about(run=phase.run.uuid, target=phase.run.target.name):
        if _lost_job(phase) is None:
            return False
        spec = spec_of(phase.run.snapshot)
        gathered = look_at(phase, spec)
        if not is_proof(spec.by_key[phase.key], gathered.finding):
            return False
        with transaction.atomic():
            run = lock_run(phase.run_id)
            board = Board.at_hand(run)
            current = board.find(phase.pk)
            job = _lost_job(current) if current else None
            if current is None or job is None or run.state == RunState.CANCELLED or current.attempt != phase.attempt:
                return False
            message = f"{current.named}: nobody can say how job {job.native_id} ended, and its outputs are all there"
            conclude(current, gathered, message=message)
            advance(run, board)
    return True


def _lost_job(phase: Phase) -> Job | None:
    """The lost job of the phase's last step, while the phase waits for it."""
    if phase.state != PhaseState.RUNNING:
        return None
    last = len(spec_of(phase.run.snapshot).by_key[phase.key].scripts) - 1
    jobs = Job.objects.filter(subject_uuid=phase.uuid, attempt=phase.attempt, step=last, state=JobState.LOST)
    return jobs.order_by("-id").first()
