"""What people do to runs and phases. The record says who did it; what judges is a decision, with its reason."""

from django.db import transaction
from django.utils import timezone

from jobs.models import Job
from jobs.services import hold_planned, release_held, stop_job
from record.access import Ability, require
from record.errors import BadInput, InvalidTransition
from record.models import Decision
from record.services import Author, Ruling, record_decision, record_event
from runs.models import Phase, Run
from runs.services.asking import mark_stale, refuse_while_applied, withdraw_gates
from runs.services.board import Board, has_begun, lock_run, refuse_archived
from runs.services.engine import advance
from runs.services.joining import begun_without
from runs.services.moves import move, move_run
from runs.states import PHASE, PhaseState, RunState

_AT_WORK = (PhaseState.RUNNING, PhaseState.VERIFYING)
_ENDED = (RunState.DONE, RunState.CANCELLED)


def pause_run(*, run: Run, author: Author, reason: str = "") -> None:
    """Start nothing more in this run; what is running goes on to its end."""
    with transaction.atomic():
        run = _lock(run.pk, author)
        move_run(run, "pause", message=_said(f"{run.name}: paused by {author.name}", reason))
        hold_planned(root_uuid=run.uuid)


def resume_run(*, run: Run, author: Author, reason: str = "") -> None:
    """Go on with a paused run."""
    with transaction.atomic():
        run = _lock(run.pk, author)
        move_run(run, "resume", message=_said(f"{run.name}: resumed by {author.name}", reason))
        release_held(root_uuid=run.uuid)
        advance(run)


def cancel_run(*, run: Run, author: Author, reason: str = "") -> Decision:
    """End a run for good: its jobs are cancelled, its open gates withdrawn. What lies on disk stays."""
    with transaction.atomic():
        run = _lock(run.pk, author)
        _refuse_unless(
            run.state in (RunState.RUNNING, RunState.PAUSED), f"Run {run.name} is {run.state}: it can't be cancelled."
        )
        board = Board.load(run)
        decision = record_decision(
            lab_id=run.lab_id, subject=run.subject(), author=author, ruling=Ruling("cancel", reason=reason.strip())
        )
        message = _said(f"{run.name}: cancelled by {author.name}", reason)
        move_run(run, "cancel", message=message, decision=decision, ended_at=timezone.now())
        _stop_phases(board, author, decision)
    return decision


def archive_run(*, run: Run, author: Author, reason: str = "") -> Decision:
    """Put an ended run away: it stays readable, takes no more commands, and its folder may be used anew."""
    with transaction.atomic():
        run = _lock(run.pk, author)
        if run.state not in _ENDED:
            raise InvalidTransition(f"Run {run.name} is {run.state}: cancel it, or let it end, before it is archived.")
        decision = record_decision(
            lab_id=run.lab_id, subject=run.subject(), author=author, ruling=Ruling("archive", reason=reason.strip())
        )
        Run.objects.filter(pk=run.pk).update(archived_at=timezone.now())
        record_event(
            lab_id=run.lab_id,
            kind="run.archive",
            subject=run.subject(),
            message=_said(f"{run.name}: archived by {author.name}", reason),
            decision=decision,
        )
    return decision


def retry_phase(*, phase: Phase, author: Author, reason: str = "") -> None:
    """Try a failed phase again; its outputs stay, and the scripts go on with the items that are missing.

    Where it had been rejected, and what joins the lanes has gone on without it, that is a decision, and makes it stale.
    """
    with transaction.atomic():
        board, phase = _lock_phase(phase, author)
        _refuse_unless(
            phase.state == PhaseState.FAILED, f"{phase.named} is {phase.state}: only a failed one is retried."
        )
        message = _said(f"{phase.named}: tried again by {author.name}", reason)
        without = _gone_on_without(board, phase)
        decision = _decide(phase, author, "retry", reason) if without else None
        unasked = [gate for gate in board.spec.gates_at(phase.key, "before") if gate.key not in phase.gates_passed]
        if unasked or not board.is_free(phase):
            move(phase, "reset", message=message, decision=decision, reason="", gate_asked="")
        else:
            move(phase, "retry", message=message, decision=decision, reason="", gate_asked="")
        if decision is not None:
            mark_stale(without, decision, _without(phase))
        advance(board.run, board)


def skip_phase(*, phase: Phase, author: Author, reason: str = "") -> Decision:
    """Go on without a phase. One that isn't optional needs a reason."""
    with transaction.atomic():
        board, phase = _lock_phase(phase, author)
        _refuse_unless(
            PHASE.allows(phase.state, "skip"),
            f"{phase.named} is {phase.state}: it can't be skipped now.",
        )
        if not phase.optional and not reason.strip():
            raise BadInput(f"{phase.named} is not optional: say why it is skipped.", code="reason_owed")
        refuse_while_applied([phase])
        decision = _decide(phase, author, "skip", reason)
        message = _said(f"{phase.named}: skipped by {author.name}", reason)
        why = _said(f"Skipped by {author.name}", reason)
        move(phase, "skip", message=message, decision=decision, reason=why, gate_asked="", ended_at=timezone.now())
        withdraw_gates([phase], author, message, decision)
        advance(board.run, board)
    return decision


def run_again_from(*, phase: Phase, author: Author, reason: str = "", keep_outputs: bool = False) -> Decision:
    """Do a phase again, and after it all that depends on it; their gates are asked anew when they are reached.

    What the phases made before is set aside when they start, unless `keep_outputs`: then their scripts go on with the
    items that are missing. A run that was done is reopened.
    """
    with transaction.atomic():
        board, phase = _lock_phase(phase, author, ended_ok=True)
        _refuse_unless(
            has_begun(phase) or phase.attempt > 0,
            f"{phase.named} has not been run yet: there is nothing to do again.",
        )
        refuse_while_applied([phase, *board.dependents(phase)])
        decision = _decide(phase, author, "run_again", reason)
        reset_from(
            board, phase, author, decision, _said(f"run again by {author.name}", reason), keep_outputs=keep_outputs
        )
    return decision


def reset_from(
    board: Board, phase: Phase, author: Author, decision: Decision, message: str, *, keep_outputs: bool = False
) -> None:
    """Reset a phase and what depends on it, and go on; in the caller's transaction, with the run locked.

    Done phases that depend on it stay done, marked stale, until what they need has been done anew. What has gone on
    without its lane, since something was rejected there, becomes stale and goes on.
    """
    run = board.run
    without = _gone_on_without(board, phase)
    if run.state == RunState.DONE:
        move_run(run, "reopen", message=f"{run.name}: {phase.named} is {message}", decision=decision, ended_at=None)
    later = [each for each in board.without_dropped(board.dependents(phase)) if each not in without]
    done = [each for each in later if each.state == PhaseState.DONE]
    begun = [each for each in later if each.state not in (PhaseState.DONE, PhaseState.SKIPPED, PhaseState.PENDING)]
    reset = [phase, *begun]
    _cancel_jobs(reset, author, f"{phase.named} is {message}")
    for each in reset:
        if each.state != PhaseState.PENDING:
            text = f"{each.named}: {message}" if each is phase else f"{each.named}: reset, {phase.named} is {message}"
            move(each, "reset", message=text, decision=decision, **_cleared(each, keep_outputs))
    for each in done:
        Phase.objects.filter(pk=each.pk).update(again=True, afresh=not keep_outputs)
        each.again, each.afresh = True, not keep_outputs
    for each in later:
        if each.on_disk:  # what lies there is of before
            Phase.objects.filter(pk=each.pk).update(on_disk=False, afresh=not keep_outputs)
            each.on_disk, each.afresh = False, not keep_outputs
    mark_stale(done, decision, f"out of date, {phase.named} is {message}")
    mark_stale(without, decision, _without(phase))
    withdraw_gates([phase, *later], author, f"{phase.named} is {message}", decision)
    advance(run, board)


def _gone_on_without(board: Board, phase: Phase) -> list[Phase]:
    """What joins the lanes and has begun without this phase's, since something was rejected there."""
    if phase.species is None or phase.species_id not in board.rejected_lanes():
        return []
    return begun_without(board, phase.species)


def _without(phase: Phase) -> str:
    return f"begun without {phase.species}, whose lane goes on"


def _cleared(phase: Phase, keep_outputs: bool) -> dict[str, object]:
    return {
        "again": False,
        "afresh": (phase.attempt > 0 or phase.on_disk) and not keep_outputs,
        "on_disk": False,
        "gates_passed": [],
        "gate_asked": "",
        "reason": "",
    }


def _stop_phases(board: Board, author: Author, decision: Decision) -> None:
    """What a cancelled run leaves: nothing that waits, nothing that runs on."""
    run = board.run
    reason = f"run {run.name} was cancelled by {author.name}"
    _cancel_jobs(board.phases, author, reason)
    live = set(Job.objects.live().filter(root_uuid=run.uuid).values_list("subject_uuid", flat=True))
    unhandled = Job.objects.unhandled().filter(root_uuid=run.uuid)
    live |= set(unhandled.values_list("subject_uuid", flat=True))
    for phase in board.phases:
        if phase.state == PhaseState.READY:
            move(phase, "reset", decision=decision)
        elif phase.state == PhaseState.CHECKPOINT or (phase.state in _AT_WORK and phase.uuid not in live):
            move(phase, "stop", decision=decision, reason=f"Stopped: {reason}.", gate_asked="", ended_at=timezone.now())
    withdraw_gates(board.phases, author, reason, decision)


def _cancel_jobs(phases: list[Phase], author: Author, reason: str) -> None:
    uuids = [phase.uuid for phase in phases]
    for job in Job.objects.live().filter(subject_uuid__in=uuids).order_by("id"):
        stop_job(job=job, author=author, reason=reason)


def _lock(run_id: int, author: Author) -> Run:
    run = lock_run(run_id)
    if author.user is not None:
        require(author.user, Ability.OPERATE, run.lab_id)
    refuse_archived(run)
    return run


def _lock_phase(phase: Phase, author: Author, *, ended_ok: bool = False) -> tuple[Board, Phase]:
    run = _lock(phase.run_id, author)
    if run.state == RunState.CANCELLED or (run.state == RunState.DONE and not ended_ok):
        raise InvalidTransition(f"Run {run.name} is {run.state}: its phases take no more commands.")
    board = Board.load(run)
    phase = board.phase(phase.pk)
    if phase.species is not None and phase.species.dropped_by_id is not None:
        raise InvalidTransition(f"The species {phase.species} was dropped from run {run.name}: bring it back first.")
    return board, phase


def _decide(phase: Phase, author: Author, verdict: str, reason: str) -> Decision:
    ruling = Ruling(verdict, reason=reason.strip())
    return record_decision(lab_id=phase.run.lab_id, subject=phase.subject(), author=author, ruling=ruling)


def _refuse_unless(allowed: bool, message: str) -> None:
    if not allowed:
        raise InvalidTransition(message)


def _said(message: str, reason: str) -> str:
    return f"{message}: {reason.strip()}" if reason.strip() else message
