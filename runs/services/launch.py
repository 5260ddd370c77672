"""Starts phases that are ready: a pre-check and the run's files outside any transaction, then the start in one."""

from dataclasses import dataclass

from django.db import transaction
from django.utils import timezone

from jobs.claiming import claim_at_once
from jobs.faults import point
from jobs.models import Job
from jobs.processes import is_alive, own_identity
from jobs.shells import shell_for
from jobs.wake import wake_on_commit
from record.errors import AdapterError, BadInput
from record.logkeys import about
from record.prepared import Prepared
from runs.models import Phase
from runs.pipeline.spec import PipelineSpec, spec_of
from runs.services.board import Board, SeriesNames, lock_run, series_names
from runs.services.ending import recorded
from runs.services.engine import advance
from runs.services.folder import set_aside, write_files
from runs.services.looking import Gathered, completion, is_proof, look_at, look_for
from runs.services.moves import REASON_CHARS, fail_phase, move
from runs.services.placing import place_series
from runs.services.precheck import check_before_start
from runs.services.replay import find_phase
from runs.services.series import add_series
from runs.services.steps import plan_step
from runs.services.verify import count_done
from runs.states import PhaseState, RunState

_PHASE = Prepared(lambda pk: Phase.objects.with_run().filter(pk=pk).order_by())
_LIVE_JOB = Prepared(
    lambda phase_uuid: Job.objects.live().filter(subject_uuid=phase_uuid).order_by().values_list("pk", flat=True)[:1]
)


@dataclass(frozen=True)
class Seen:
    """The settings that were written out for a start; it counts only if they still hold when it is made."""

    snapshot_id: int
    conf: dict[str, str]
    species_conf: dict[str, str] | None
    excluded: list[str]


@dataclass(frozen=True)
class Ready:
    """What the preparation of a start came to: problems in words, or the items that are done and those there are.

    `complete` is what was found where nothing is left to do.
    """

    problems: list[str]
    done: int = 0
    total: int = 0
    complete: Gathered | None = None


def start_phase(phase_id: int, known: Phase | None = None) -> bool:
    """Start a phase that is ready, or fail it with what the pre-check found; whether it went on.

    In a replay, and where it was worked on before the run was taken up, nothing is started: its outputs are looked
    for, and the answer is whether they are all there.

    One whose outputs are all there, and that was never run here, is done without a job.
    Does nothing where the phase is not ready any more, its run is not running, or a job of it is still about. `known`
    is the phase with its run, as it was just now; what has changed since counts all the same.
    """
    phase = known or _PHASE.first(phase_id)
    if phase is None:
        return False
    with about(run=phase.run.uuid, target=phase.run.target.name):
        if not _may_start(phase):
            return False
        return _find(phase) if phase.run.replay or phase.on_disk else _claim(phase) and _start(phase)


def _find(phase: Phase) -> bool:
    try:
        return find_phase(phase)
    except AdapterError as error:
        _note_waiting(phase, error.message)
        raise


def _start(phase: Phase) -> bool:
    names = series_names(phase.run, phase.species)
    seen = _seen(phase, names.excluded)
    try:
        ready = _get_ready(phase, names)
        with transaction.atomic():
            return _begin(phase, seen, ready)
    except BadInput as error:
        problem = error.message
    except AdapterError as error:
        if error.transient:
            _note_waiting(phase, error.message)
            raise
        problem = error.message
    with transaction.atomic():
        return _begin(phase, seen, Ready([problem]))


def _claim(phase: Phase) -> bool:
    """Take the setting aside of earlier outputs upon this process; whether it is free to.

    Of two that did it at once, the slower would move the new outputs away. A claim ends with its process.
    """
    if not phase.afresh:
        return True
    own = own_identity()
    if phase.holder and phase.holder != own and is_alive(phase.holder):
        return False
    unclaimed = Phase.objects.filter(pk=phase.pk, state=PhaseState.READY, attempt=phase.attempt, holder=phase.holder)
    return unclaimed.update(holder=own) == 1


def _get_ready(phase: Phase, names: SeriesNames) -> Ready:
    spec = spec_of(phase.run.snapshot)
    if problems := check_before_start(phase, spec):
        return Ready(problems)
    of_run = series_names(phase.run) if phase.species else names
    write_files(phase.run, spec, of_run.excluded)
    set_aside(phase, spec, sorted([*names.active, *names.excluded]))
    place_series(phase, spec, of_run, names)
    point("phase_prepared", phase.uuid)
    done, total = count_done(shell_for(phase.run.target), look_for(phase, spec, names.active))
    return Ready([], done, total, _complete(phase, spec) if done >= total else None)


def _complete(phase: Phase, spec: PipelineSpec) -> Gathered | None:
    """What lies on disk of a phase that was never run here, where that proves it done. None where it doesn't.

    Only what was there before the run began counts: else phases of this run have made it, on the way to something else.
    """
    if phase.attempt > 0 or phase.afresh:
        return None
    gathered = look_at(phase, spec)
    finding = gathered.finding
    if finding is None or not is_proof(spec.by_key[phase.key], finding):
        return None
    return gathered if finding.newest is None or finding.newest < phase.run.created_at else None


def _note_waiting(phase: Phase, message: str) -> None:
    """Say at the phase why it doesn't start; it stays ready, and is tried again."""
    reason = f"It can't be started yet: {message} It is tried again."
    Phase.objects.filter(pk=phase.pk, state=PhaseState.READY).update(reason=reason[:REASON_CHARS])


def _begin(phase: Phase, seen: Seen, ready: Ready) -> bool:
    board = Board.of_phase(lock_run(phase.run_id), phase.pk)
    current = board.phase(phase.pk)
    if not _may_start(current) or _seen(current, board.excluded_for(current)) != seen:
        return False
    if ready.problems:
        found = "; ".join(problem.rstrip(".") for problem in ready.problems)
        fail_phase(current, f"The check before the start found: {found}.")
        return False
    if ready.complete:
        _fast_forward(board, current, ready.complete)
        return True
    spec = board.spec_for(current)
    before = [gate.key for gate in board.spec.gates_at(spec.key, "before")]
    move(
        current,
        "start",
        attempt=current.attempt + 1,
        afresh=False,
        holder="",
        gates_passed=[key for key in current.gates_passed if key in before],
        started_at=timezone.now(),
        ended_at=None,
        reason="",
        stale_since=None,
        stale_by=None,
        completion=completion(ready.done, ready.total),
        items_done=ready.done,
        items_total=ready.total,
        items_at_start=ready.done,
        looked_at=timezone.now(),
        outputs={},
        files={},
    )
    claim_at_once(plan_step(board, current, 0))
    wake_on_commit()
    point("phase_before_commit", phase.uuid)
    return True


def _fast_forward(board: Board, phase: Phase, found: Gathered) -> None:
    """The phase is done by what was there before: nothing is run, and the gates after it are asked. Counts as begun."""
    finding, now = found.finding, timezone.now()
    if finding is None:
        raise RuntimeError(f"{phase} is not known to be complete")
    move(
        phase,
        "fast_forward",
        message=f"{phase.named}: all of its outputs are there ({finding.done} of {finding.total}); nothing is run",
        attempt=phase.attempt + 1,
        holder="",
        started_at=now,
        ended_at=now,
        items_at_start=finding.done,
        looked_at=now,
        reason="",
        **recorded(finding),
    )
    add_series(phase.run, found.names)
    advance(board.run)


def _may_start(phase: Phase) -> bool:
    run = phase.run
    if phase.state != PhaseState.READY or run.state != RunState.RUNNING or run.archived_at:
        return False
    return not _LIVE_JOB.all(phase.uuid)


def _seen(phase: Phase, excluded: list[str]) -> Seen:
    return Seen(phase.run.snapshot_id, phase.run.conf, phase.species.conf if phase.species else None, excluded)
