"""Takes jobs up that others handed over to a cluster: from then on they are followed as our own are."""

from datetime import datetime

from django.utils import timezone

from jobs.models import Job, Target
from jobs.parse import fill_signs, sbatch_options
from jobs.services import Resources, plan_job
from jobs.shells import within_roots
from jobs.states import JOB
from record.services import Subject

DEFAULT_OUTPUT = "slurm-%j.out"  # where sbatch writes what a script with no such line prints


def adopt_job(
    *,
    target: Target,
    name: str,
    subject: Subject,
    script: str,
    script_name: str,
    work_dir: str,
    purpose: str,
    step: int,
    attempt: int,
    on_final: str,
    resources: Resources,
    native_id: str,
    called: str,
    submitted_at: datetime | None,
    started_at: datetime | None,
) -> Job:
    """Write down a job that waits at a cluster already, or runs there, as `called`; in the caller's transaction.

    It has no token folder, so it is never handed over again: it ends by the cluster's word, or is lost. Its log files
    are those that its script names. Raises BadInput where it asks for more than the target gives, or logs elsewhere.
    """
    job = plan_job(
        target=target,
        name=name,
        subject=subject,
        script=script,
        script_name=script_name,
        work_dir=work_dir,
        environment={},
        purpose=purpose,
        step=step,
        attempt=attempt,
        on_final=on_final,
        resources=resources,
    )
    out, err = _log_paths(target, script, work_dir, native_id.partition(";")[0], called)
    _apply(job, "claim", generation=1)
    raw = {"called": called} | ({"submit_time": submitted_at.isoformat()} if submitted_at else {})
    message = f"{job.subject().label}: job {native_id}, handed over by others, is followed from now on"
    changes = {
        "native_id": native_id,
        "native_raw": raw,
        "submitted_at": submitted_at or timezone.now(),
        "started_at": started_at,
        "stdout_path": out,
        "stderr_path": err,
    }
    _apply(job, "start" if started_at else "enqueue", message, **changes)
    return job


def _apply(job: Job, event: str, message: str = "", **changes: object) -> None:
    JOB.apply(job, event, lab_id=job.lab_id, subject=job.subject(), message=message, **changes)  # type: ignore[arg-type]


def _log_paths(target: Target, script: str, work_dir: str, job_id: str, called: str) -> tuple[str, str]:
    asked = sbatch_options(script)
    output = asked.get("output") or DEFAULT_OUTPUT
    found = []
    for pattern in (output, asked.get("error") or output):
        path = fill_signs(pattern, job_id=job_id, job_name=called)
        found.append(within_roots(target, path if path.startswith("/") else f"{work_dir}/{path}")[:700])
    return found[0], found[1]
