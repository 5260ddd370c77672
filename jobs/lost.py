"""What a person may say of a job of which nothing is known any more."""

from django.db import transaction
from django.utils import timezone

from jobs.executors.slurm.client import Slurm
from jobs.following import folder_of
from jobs.models import Job, TargetKind
from jobs.shells import cluster_of, shell_for
from jobs.states import JOB, JobState
from jobs.wake import wake_on_commit
from record.access import Ability, require
from record.errors import AdapterError, BadInput, InvalidTransition
from record.services import Author, Ruling, record_decision, record_event


def settle_lost(*, job: Job, author: Author, reason: str) -> None:
    """Declare that a lost job has ended without a result; what waited for it goes on as after a failure.

    A decision, with its reason in the record: whoever declares it vouches that the job does not run any more. A
    submission of it that is still queued somewhere is kept from beginning, where its folder can be reached. Raises
    InvalidTransition where it is not lost (any more), BadInput without a reason, NotAllowed for people who may not
    overrule the state of things.
    """
    if author.user is not None:
        require(author.user, Ability.OVERRIDE, job.lab_id)
    if not reason.strip():
        raise BadInput("Say how you know that the job does not run any more.")
    job.refresh_from_db()
    if job.state != JobState.LOST:
        raise InvalidTransition(
            f"{job.subject().label} is {job.get_state_display()}: only a lost job can be declared ended."
        )
    words = f"Declared ended by {author.name}: {reason.strip()}"
    if fault := _close(job):
        words = f"{words} (a submission that is still queued could begin: {fault})"
    with transaction.atomic():
        JOB.apply(
            job, "fail", lab_id=job.lab_id, subject=job.subject(), message=f"{job.subject().label}: {words}",
            where={"generation": job.generation}, ended_at=timezone.now(), reason=words[:1000],
            final_handled=not job.on_final,  # what follows is done by the sweep: it may read disks far away
        )  # fmt: skip
        decision = record_decision(
            lab_id=job.lab_id, subject=job.subject(), author=author, ruling=Ruling("declare_ended", reason=reason)
        )
        record_event(
            lab_id=job.lab_id, kind="job.settle", subject=job.subject(), message=f"{job.subject().label}: {words}",
            decision=decision,
        )  # fmt: skip
        wake_on_commit()


def _close(job: Job) -> str:
    """Take the claim of its folder, so that a guard that comes late begins nothing; why that can't be, in words."""
    if job.target.kind != TargetKind.SLURM:  # on this machine a guard that is dead has been seen to be
        return ""
    try:
        Slurm(shell_for(job.target), cluster_of(job.target).site()).close(folder_of(job))
    except AdapterError as error:
        return error.message
    return ""
