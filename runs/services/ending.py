"""What follows the end of a phase's job."""

import logging
from typing import Any

from django.db import transaction
from django.utils import timezone

from jobs.models import Job
from jobs.shells import shell_for
from jobs.states import JobState
from record.errors import AdapterError, BadInput
from record.logkeys import about
from record.prepared import Prepared
from runs.models import Phase
from runs.pipeline.spec import spec_of
from runs.services.board import Board, lock_run
from runs.services.engine import advance
from runs.services.in_place import require_unchanged
from runs.services.looking import Gathered, completion, look_at
from runs.services.made_ready import note_ready
from runs.services.moves import fail_phase, move
from runs.services.series import add_series
from runs.services.steps import plan_step
from runs.services.verify import Finding, describe_problems
from runs.states import Completion, RunState

log = logging.getLogger(__name__)

_PHASE = Prepared(lambda uuid: Phase.objects.with_run().filter(uuid=uuid).order_by())
_KEYS = Prepared(lambda uuid: Phase.objects.filter(uuid=uuid).order_by().values_list("pk", "run_id"))


class StepEnded:
    """What follows the end of a phase's job (registered in jobs.final as `runs.step_ended`)."""

    def gather(self, job: Job) -> Gathered:
        """After the last step: the tilt series there are, and the phase's outputs. Reads only.

        Raises AdapterError where the folder can't be read at the moment: the end is then handled later.
        """
        phase = _phase_of(job)
        if phase is None or not is_current(phase, job) or job.state != JobState.SUCCEEDED:
            return Gathered()
        spec = spec_of(phase.run.snapshot)
        goes_on = job.step + 1 < len(spec.by_key[phase.key].scripts)
        try:
            if goes_on and phase.run.in_place:
                require_unchanged(shell_for(phase.run.target), phase.run)
            return Gathered() if goes_on else look_at(phase, spec)
        except BadInput as error:
            return Gathered(error=error.message)
        except AdapterError as error:
            if error.transient:
                raise
            return Gathered(error=error.message)

    def lock(self, job: Job) -> None:
        """The run, which comes before its jobs."""
        phase = _phase_of(job)
        if phase is not None:
            lock_run(phase.run_id)

    def apply(self, job: Job, gathered: Gathered) -> None:
        """Go on to the next step, or conclude the phase; an end that nobody waits for any more changes nothing."""
        keys = _KEYS.first(job.subject_uuid)
        if keys is None:
            return
        run = lock_run(keys[1])
        board = Board.at_hand(run)
        phase = board.find(keys[0])
        if phase is None or not is_current(phase, job):
            log.info("the end of job %s is not waited for any more", job.token)
            return
        if run.state == RunState.CANCELLED:
            move(phase, "stop", reason="Stopped: the run was cancelled.", ended_at=timezone.now())
        elif job.state != JobState.SUCCEEDED:
            fail_phase(phase, _why_failed(job))
        elif job.step + 1 < len(board.spec_for(phase).scripts):
            if phase.awaits_end:
                move(phase, "go_on", reason="")
            if gathered.error:
                fail_phase(phase, gathered.error)
            elif run.state == RunState.RUNNING:
                _go_on(board, phase, job.step + 1)
        else:
            conclude(phase, gathered)
        advance(run, board)
        note_ready(run, board.phases)


def _go_on(board: Board, phase: Phase, step: int) -> None:
    try:
        plan_step(board, phase, step)
    except BadInput as error:
        fail_phase(phase, error.message)


def is_current(phase: Phase, job: Job) -> bool:
    """Whether the phase waits for this job: it is at work, and the job is of its present attempt."""
    return phase.is_at_work and phase.attempt == job.attempt


def conclude(phase: Phase, gathered: Gathered, *, message: str = "") -> None:
    """Verify: the exit code said yes (or nobody can say), now the outputs have to. `message` is why it is verified."""
    if gathered.finding is None:
        move(phase, "verify")
        fail_phase(phase, gathered.error or "its outputs were not looked at")
        return
    move(phase, "verify", message=message, ended_at=timezone.now(), reason="", **recorded(gathered.finding))
    if gathered.names:
        add_series(phase.run, gathered.names)
    if gathered.finding.problems:
        what = describe_problems(gathered.finding.problems)
        fail_phase(phase, f"The script ended with exit code 0, but {what}.")


def recorded(finding: Finding) -> dict[str, Any]:
    """What a phase keeps of what was found."""
    return {
        "completion": completion(finding.done, finding.total) if finding.problems else Completion.DONE,
        "items_done": finding.done,
        "items_total": finding.total,
        "outputs": finding.outputs,
        "files": finding.files,
    }


def _why_failed(job: Job) -> str:
    what = job.reason or (f"exit code {job.exit_code}" if job.exit_code is not None else JobState(job.state).label)
    return f"{job.script_name} {JobState(job.state).label.lower()}: {what}".strip()


def _phase_of(job: Job) -> Phase | None:
    return _PHASE.first(job.subject_uuid)


@transaction.atomic
def settle_stopped(run_id: int) -> None:
    """Stop phases of a cancelled run that wait between two steps and so have no job whose end could stop them."""
    run = lock_run(run_id)
    with about(run=run.uuid):
        for phase in Board.load(run).phases:
            if phase.is_at_work and not Job.objects.live().filter(subject_uuid=phase.uuid).exists():
                move(phase, "stop", reason="Stopped: the run was cancelled.", ended_at=timezone.now())


STEP_ENDED = StepEnded()
