"""What may be asked of jobs: plan, cancel, hold back; and what follows their end."""

import re
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.utils import timezone

from jobs.environment import VARIABLE
from jobs.final import handler, lock_for
from jobs.models import Job, Target, new_token
from jobs.parse import fill_pattern, script_resources
from jobs.querysets import JobQuerySet
from jobs.shells import within_roots
from jobs.states import JOB, JobState
from jobs.wake import wake_on_commit
from record.access import Ability, require
from record.errors import BadInput, ConductorError
from record.prepared import insert
from record.services import Author, Subject, record_event

SAFE_NAME = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Resources:
    """What a job may use. Times in seconds, memory in MiB of all its processes together."""

    time_limit_s: int
    memory_mib: int
    cpus: int = 1


def resources_for(target: Target, script: str, *, time_limit_s: int | None = None) -> Resources:
    """What a script asks for in its #SBATCH lines, with the target's defaults, within the target's limits.

    `time_limit_s` goes before what the script says. A script that asks for more than the target gives is refused
    (BadInput): it would only be ended half-way.
    """
    asked = script_resources(script)
    wanted = Resources(
        time_limit_s=time_limit_s or asked.time_limit_s or target.default_time_limit_s,
        memory_mib=asked.memory_mib or target.max_memory_mib,
        cpus=asked.cpus or 1,
    )
    _check_limits(target, wanted)
    return wanted


def plan_job(
    *,
    target: Target,
    name: str,
    subject: Subject,
    script: str,
    script_name: str,
    work_dir: str,
    environment: dict[str, str],
    purpose: str,
    step: int,
    attempt: int,
    on_final: str,
    resources: Resources,
) -> Job:
    """Write down a job that is to be run once, in the caller's transaction; `conduct` is woken when that commits.

    `subject` is what it is for; `on_final` the registered key of what follows its end ("" for nothing). Log files lie
    where the script's #SBATCH lines say, else in the work folder's `logs`, with the job's token in their names.
    Raises BadInput for a folder outside the target's roots, an impossible environment, and more than the target gives.
    """
    _check_limits(target, resources)
    _check_script(script)
    _check_environment(environment)
    work_dir = within_roots(target, work_dir)
    token = new_token()
    script_name = SAFE_NAME.sub("_", script_name.rsplit("/", 1)[-1])[:120].lstrip(".") or "script.sh"
    stdout_path, stderr_path = _log_paths(target, script, script_name, work_dir, token)
    job = Job(
        lab_id=target.lab_id,
        target=target,
        token=token,
        name=name[:200],
        subject_kind=subject.kind,
        subject_uuid=subject.uuid,
        root_uuid=subject.root,
        purpose=purpose,
        step=step,
        attempt=attempt,
        on_final=on_final,
        script=script,
        script_name=script_name,
        work_dir=work_dir,
        job_folder=target.job_folder,
        environment=environment,
        time_limit_s=resources.time_limit_s,
        memory_mib=resources.memory_mib,
        cpus=resources.cpus,
        stdout_path=stdout_path,
        stderr_path=stderr_path,
    )
    insert(job)
    record_event(
        lab_id=job.lab_id, kind="job.plan", subject=job.subject(), data={"token": token, "for": str(subject.uuid)}
    )
    wake_on_commit()
    return job


def request_cancel(*, job: Job, author: Author, reason: str = "") -> None:
    """Ask for a job's end, as an operator may: see stop_job. NotAllowed, in words, for people who may not operate."""
    if author.user is not None:
        require(author.user, Ability.OPERATE, job.lab_id)
    stop_job(job=job, author=author, reason=reason)


def stop_job(*, job: Job, author: Author, reason: str = "") -> None:
    """End a job in consequence of something else that `author` did (and was allowed to do): no right is asked for here.

    A planned one is cancelled at once, another is ended and verified gone soon; one that has ended stays as it is.
    """
    with transaction.atomic():
        job.refresh_from_db()
        if job.is_final or job.cancel_requested_at:
            return
        message = f"Cancelled by {author.name}" + (f": {reason}" if reason else "")
        if job.state == JobState.PLANNED:
            now = timezone.now()
            JOB.apply(
                job, "cancel", lab_id=job.lab_id, subject=job.subject(), message=f"{job.subject().label}: {message}",
                reason=f"{message}. It had not been started."[:1000], ended_at=now, cancel_requested_at=now,
            )  # fmt: skip
        else:
            job.cancel_requested_at = timezone.now()
            job.reason = f"Being cancelled. {message}"[:1000]
            Job.objects.filter(pk=job.pk, ended_at=None).update(
                cancel_requested_at=job.cancel_requested_at, reason=job.reason
            )
            record_event(
                lab_id=job.lab_id, kind="job.request_cancel", subject=job.subject(), message=message,
                data={"author": author.name, "kind": author.kind, "reason": reason},
            )  # fmt: skip
        wake_on_commit()


def hold_planned(*, root_uuid: Any) -> int:
    """Keep back all jobs of a run that have not been handed over: none of them starts after this has committed.

    One that is being handed over just now goes on; if that fails, it is not tried again. How many there were.
    """
    waiting = [JobState.PLANNED, JobState.SUBMITTING]
    planned = Job.objects.live().filter(root_uuid=root_uuid, state__in=waiting, held=False)
    return planned.filter(pk__in=_locked(planned)).update(held=True)


def release_held(*, root_uuid: Any) -> int:
    """Let the jobs of a run start that were kept back. How many there were."""
    wake_on_commit()
    held = Job.objects.live().filter(root_uuid=root_uuid, held=True)
    return held.filter(pk__in=_locked(held)).update(held=False)


def handle_final(job: Job) -> bool:
    """Do what follows a job's end, once: gather outside, then effects and mark in one transaction.

    False where it has been done before or the job has not ended; ConductorError where nobody is registered for its key.
    """
    if not job.is_final or job.final_handled:
        return False
    follower = handler(job.on_final) if job.on_final else None
    if job.on_final and follower is None:
        raise ConductorError(f"{job} ended, but nobody is registered for {job.on_final!r}: nothing follows yet.")
    gathered = follower.gather(job) if follower else None
    with transaction.atomic():
        lock_for(follower, job)
        if not mark_handled(job):
            return False
        if follower:
            follower.apply(job, gathered)
    return True


def mark_handled(job: Job) -> bool:
    """Set `final_handled` by compare-and-set; False where somebody else did."""
    if Job.objects.unhandled().filter(pk=job.pk).update(final_handled=True) != 1:
        return False
    job.final_handled = True
    return True


def _locked(jobs: JobQuerySet) -> list[int]:
    """Keys of these jobs, locked in their order, as whoever claims several does; one UPDATE locks them in any order."""
    return list(jobs.order_by("id").select_for_update(no_key=True).values_list("pk", flat=True))


def _check_limits(target: Target, resources: Resources) -> None:
    if resources.time_limit_s > target.max_time_limit_s:
        raise BadInput(
            f"{resources.time_limit_s} s are asked for; target {target.name} gives at most {target.max_time_limit_s} s."
        )
    if resources.memory_mib > target.max_memory_mib:
        raise BadInput(
            f"{resources.memory_mib} MiB are asked for; target {target.name} gives at most {target.max_memory_mib} MiB."
        )
    if min(resources.time_limit_s, resources.memory_mib, resources.cpus) < 1:
        raise BadInput("Time limit, memory and processors of a job must be at least 1.")


def _check_script(script: str) -> None:
    try:
        script.encode()
    except UnicodeEncodeError as error:
        raise BadInput(f"The script holds a character that can't be written as UTF-8, at {error.start}.") from None
    if "\0" in script:
        raise BadInput("The script holds a NUL character: it is no text.")


def _check_environment(environment: dict[str, str]) -> None:
    for name, value in environment.items():
        if not VARIABLE.fullmatch(name):
            raise BadInput(f"{name!r} can't be the name of an environment variable.")
        if not isinstance(value, str) or "\0" in value:
            raise BadInput(f"The environment variable {name} must be text without NUL characters.")


def _log_paths(target: Target, script: str, script_name: str, work_dir: str, token: str) -> tuple[str, str]:
    """(stdout, stderr) as the script's #SBATCH lines name them, within the target's roots."""
    asked = script_resources(script)
    job_name = SAFE_NAME.sub("_", asked.job_name or script_name.rsplit(".", 1)[0])
    output = asked.output or "logs/%x_%j.out"
    error = asked.error or (output if asked.output else "logs/%x_%j.err")
    paths = [f"{work_dir}/{fill}" if not fill.startswith("/") else fill
             for fill in (fill_pattern(each, token=token, job_name=job_name) for each in (output, error))]  # fmt: skip
    return within_roots(target, paths[0]), within_roots(target, paths[1])
