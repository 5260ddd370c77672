"""Replays: runs that start nothing. What their phases made is read from disk, as far as the next gate."""

from dataclasses import dataclass, field

from django.db import transaction
from django.utils import timezone

from jobs.models import Target
from jobs.shells import SYSTEM_PATH, shell_for
from record.errors import AdapterError, BadInput
from runs.models import Phase
from runs.pipeline.spec import PhaseSpec, spec_of
from runs.services.board import Board, lock_run
from runs.services.earlier import follow_earlier
from runs.services.ending import recorded
from runs.services.engine import advance
from runs.services.looking import look_at
from runs.services.moves import fail_phase, move
from runs.services.series import add_series
from runs.services.tools import target_for_evidence
from runs.services.verify import Finding, describe_problems
from runs.states import PhaseState, RunState

CHECK_TIMEOUT_S = 20


@dataclass(frozen=True)
class Found:
    """What lay in the folder for one phase. `problem`: why it can't count as done, in words."""

    problem: str = ""
    names: list[str] = field(default_factory=list)
    finding: Finding | None = None


def find_phase(phase: Phase) -> bool:
    """Read from disk what a replay's ready phase made, and go on after it; whether it was all there.

    What is missing fails the phase by its name; trying it again looks again. Raises AdapterError where the folder can't
    be read at the moment. Where the cluster still has a job that was handed over for it earlier, it goes on with that.
    """
    if not phase.run.replay and follow_earlier(phase):
        return True
    found = _look(phase)
    with transaction.atomic():
        run = lock_run(phase.run_id)
        board = Board.at_hand(run)
        current = board.find(phase.pk)
        if current is None or current.state != PhaseState.READY or run.state != RunState.RUNNING or run.archived_at:
            return False
        if found.problem:
            fail_phase(current, f"{_whose(current)}: {found.problem}.", on_disk=False)
        else:
            _pass_over(current, board.spec_for(current), found)
            advance(run, board)
    return not found.problem


def _whose(phase: Phase) -> str:
    if phase.run.replay:
        return "This run is a replay, which starts nothing"
    jobs = f" (jobs {', '.join(map(str, phase.awaited_ids))})" if phase.awaited_ids else ""
    return f"It had been worked on before the run was taken up{jobs}, and is not whole. Try it again to go on with it"


def _look(phase: Phase) -> Found:
    try:
        gathered = look_at(phase, spec_of(phase.run.snapshot))
    except BadInput as error:
        return Found(error.message.rstrip("."))
    except AdapterError as error:
        if error.transient:
            raise
        return Found(error.message.rstrip("."))
    finding = gathered.finding
    if finding is None or finding.problems:
        problem = describe_problems(finding.problems) if finding else "its outputs could not be looked at"
        return Found(f"{problem} (in {phase.run.work_dir})", gathered.names, finding)
    return Found("", gathered.names, finding)


def _pass_over(phase: Phase, spec: PhaseSpec, found: Found) -> None:
    if found.finding is None:
        raise ValueError("a phase is passed over only by what was found of it")
    move(
        phase,
        "fast_forward",
        message=f"{phase.named}: {_why(spec, found.finding)}; nothing was started",
        ended_at=timezone.now(),
        afresh=False,
        on_disk=False,
        reason="",
        stale_since=None,
        stale_by=None,
        **recorded(found.finding),
    )
    if found.names:
        add_series(phase.run, found.names)


def _why(spec: PhaseSpec, finding: Finding) -> str:
    if not spec.outputs:
        return "the manifest names no output that could be looked for, so it counts as done, not checked"
    what = "tilt series" if spec.per_series else "outputs"
    return f"found on disk, {finding.done} of {finding.total} {what}"


def check_replay_folder(target: Target, folder: str) -> None:
    """BadInput unless the folder is there, and a target of this lab can draw evidence in it."""
    done = shell_for(target).run(["test", "-d", folder], env={"PATH": SYSTEM_PATH}, cwd="/", timeout_s=CHECK_TIMEOUT_S)
    if done.returncode:
        raise BadInput(f"A replay reads what is there, and the folder {folder} isn't there on target {target.name}.")
    target_for_evidence(target, folder)
