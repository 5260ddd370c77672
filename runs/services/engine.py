"""The engine: what can go on in a run, goes on. Everything it does is in one transaction with the run locked.

Nothing is started while a run is paused, cancelled or archived: `advance` then does nothing, and whoever resumes it
calls `advance` again. Whatever changes a phase calls it in the same transaction, so that nothing waits for a sweep.
"""

from django.db import transaction
from django.utils import timezone

from jobs.wake import wake_on_commit
from runs.models import Preflight, Run
from runs.services.asking import ask_gate, next_gate
from runs.services.board import Board, lock_run
from runs.services.moves import move, move_run
from runs.services.steps import plan_due_steps
from runs.states import PhaseState, RunState

SETUP = "setup"  # the protocol that asks for what is missing on the target


def advance_run(run_id: int) -> int:
    """Let the run go on as far as it can; the number of moves. Calling it again changes nothing."""
    with transaction.atomic():
        return advance(lock_run(run_id))


def advance(run: Run, board: Board | None = None) -> int:
    """As advance_run, in the caller's transaction, with `run` locked."""
    if run.state != RunState.RUNNING or run.archived_at:
        return 0
    board = board or Board.at_hand(run)
    moves = plan_due_steps(board)
    while made := sum(_advance_phase(board, index) for index in range(len(board.phases))):
        moves += made
    if board.is_finished():
        move_run(run, "finish", ended_at=timezone.now())
        moves += 1
    if moves:
        wake_on_commit()
    return moves


def _advance_phase(board: Board, index: int) -> int:
    phase = board.phases[index]
    rule = _RULES.get(PhaseState(phase.state))
    return rule(board, index) if rule else 0


def _begin_again(board: Board, index: int) -> int:
    """Done, to be run again, and what it needs has been done anew."""
    phase = board.phases[index]
    if not phase.again or not board.is_free(phase):
        return 0
    move(phase, "reset", again=False, gates_passed=[], gate_asked="")
    return 1


def _get_ready(board: Board, index: int) -> int:
    phase = board.phases[index]
    if not board.is_free(phase):
        return 0
    gate = next_gate(board.spec, phase, "before")
    if gate is not None and gate.protocol == SETUP and Preflight.objects.planned().filter(run=board.run).exists():
        return 0  # what its target lacks is asked there, too
    if gate is not None:
        ask_gate(phase, gate)
    else:
        move(phase, "make_ready")
    return 1


def _go_on_after_gate(board: Board, index: int) -> int:
    """At a checkpoint with no gate asked: the last one has been passed. Ask the next on that side, or go on."""
    phase = board.phases[index]
    if phase.gate_asked or not phase.gates_passed:
        return 0
    where = board.spec.gate(phase.gates_passed[-1]).where
    if gate := next_gate(board.spec, phase, where):
        ask_gate(phase, gate)
    else:
        move(phase, "pass_checkpoint" if where == "before" else "finish")
    return 1


def _conclude(board: Board, index: int) -> int:
    """Outputs verified: ask the first gate after the phase, or be done. One that awaits a job's end goes on waiting."""
    phase = board.phases[index]
    if phase.awaits_end:
        return 0
    if gate := next_gate(board.spec, phase, "after"):
        ask_gate(phase, gate)
    else:
        move(phase, "finish")
    return 1


_RULES = {
    PhaseState.DONE: _begin_again,
    PhaseState.PENDING: _get_ready,
    PhaseState.CHECKPOINT: _go_on_after_gate,
    PhaseState.VERIFYING: _conclude,
}
