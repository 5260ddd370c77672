"""Jobs that a lab's own tools handed over before a run was taken up: followed or waited for, not handed over again."""

import re
from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from jobs.adopting import adopt_job
from jobs.executors.slurm.client import Slurm
from jobs.executors.slurm.parse import Status
from jobs.executors.slurm.states import Standing
from jobs.models import TargetKind
from jobs.parse import script_resources
from jobs.shells import cluster_of, shell_for
from record.errors import AdapterError, BadInput
from runs.models import Phase
from runs.pipeline.spec import spec_of
from runs.services.board import Board, lock_run
from runs.services.moves import move
from runs.services.steps import ON_FINAL, PURPOSE, script_text, step_resources
from runs.states import Completion, PhaseState, RunState

NATIVE_ID = re.compile(r"[0-9]+(;[A-Za-z0-9_.-]+)?\Z")
SEEN_SINCE = timedelta(days=1)


def follow_earlier(phase: Phase) -> bool:
    """Follow the job that a phase had before its run was taken up, if the cluster still has it; whether it has.

    The phase then runs with it, as with a job of our own. An id comes round again, so a job counts only under a name
    that the phase's scripts give. Raises AdapterError, transient, where the cluster can't be asked (which is no
    answer), or has several, or one that can't be followed: the phase waits until they have ended.
    """
    there = _still_there(phase)
    if not there:
        return False
    if len(there) > 1:
        raise _wait(phase, list(there))
    [(native_id, status)] = there.items()
    try:
        shell_for(phase.run.target).make_folder(phase.run.target.job_folder)  # else nothing can be told of its jobs
        with transaction.atomic():
            return _adopt(phase, native_id, status)
    except BadInput as error:
        raise _wait(phase, [native_id], f" It can't be followed: {error.message}") from error


def _still_there(phase: Phase) -> dict[str, Status]:
    """native id -> status of the phase's earlier jobs that are queued or running."""
    ids = [each for each in map(str, phase.awaited_ids) if NATIVE_ID.match(each)]
    target = phase.run.target
    if not ids or target.kind != TargetKind.SLURM:
        return {}
    slurm = Slurm(shell_for(target), cluster_of(target).site())
    answer = slurm.poll(ids, since=timezone.now() - SEEN_SINCE)
    names = _names(phase)
    return {
        native_id: status
        for native_id, status in answer.statuses.items()
        if status.meaning.standing != Standing.ENDED and status.name in names
    }


def _wait(phase: Phase, ids: list[str], why: str = "") -> AdapterError:
    return AdapterError(
        f"Job {', '.join(ids)}, handed over before the run was taken up, is still at {phase.run.target.name}: it is "
        f"waited for.{why}",
        transient=True,
    )


def _adopt(phase: Phase, native_id: str, status: Status) -> bool:
    board = Board.of_phase(lock_run(phase.run_id), phase.pk)
    current, run = board.find(phase.pk), board.run
    if current is None or current.state != PhaseState.READY or run.state != RunState.RUNNING or run.archived_at:
        return False
    spec = board.spec_for(current)
    step = _names(current).index(status.name)
    script = script_text(run, spec, spec.scripts[step])
    runs = status.meaning.standing == Standing.RUNNING
    move(
        current,
        "start",
        message=f"{current.named}: goes on with job {native_id}, which was handed over before the run was taken up",
        attempt=current.attempt + 1,
        on_disk=False,
        started_at=status.started_at or timezone.now(),
        ended_at=None,
        reason="",
        completion=Completion.PENDING,
        looked_at=None,
        outputs={},
        files={},
    )
    adopt_job(
        target=run.target,
        name=f"{run.name}: {current.named}, {spec.scripts[step]}"[:200],
        subject=current.subject(),
        script=script,
        script_name=spec.scripts[step].rsplit("/", 1)[-1],
        work_dir=run.work_dir,
        purpose=PURPOSE,
        step=step,
        attempt=current.attempt,
        on_final=ON_FINAL,
        resources=step_resources(run, spec, script),
        native_id=native_id,
        called=status.name,
        submitted_at=status.submitted_at,
        started_at=(status.started_at or timezone.now()) if runs else None,
    )
    return True


def _names(phase: Phase) -> list[str]:
    """The names that sbatch gives to jobs of the phase's scripts: their own, or that of the file."""
    spec = spec_of(phase.run.snapshot).by_key[phase.key]
    given = [script_resources(script_text(phase.run, spec, script)).job_name for script in spec.scripts]
    return [name or script.rsplit("/", 1)[-1] for name, script in zip(given, spec.scripts, strict=True)]
