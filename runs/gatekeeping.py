"""What a phase does with its gates: goes on after them, goes back, or stops."""

from django.urls import NoReverseMatch, reverse

from gates.models import Gate
from gates.protocols import APPROVE, REJECT, SEND_BACK, Preparation
from gates.subjects import Renewal
from record.errors import BadInput, InvalidTransition
from record.models import Decision
from record.services import Author
from runs.evidence import filled, preparation
from runs.models import Phase
from runs.pipeline.spec import GateSpec, PipelineSpec, spec_of
from runs.services.asking import describe_gate, mark_stale, pass_gate
from runs.services.board import Board, lock_run
from runs.services.control import reset_from
from runs.services.engine import advance
from runs.services.moves import fail_phase, move_run
from runs.states import PhaseState, RunState


class PhaseKeeper:
    """Keeper of gates about phases (registered in gates.subjects as `phase`)."""

    def applied(self, gate: Gate, decision: Decision) -> None:
        """Go on after the gate, in the transaction that makes it `applied`.

        A phase that doesn't wait at this gate any more (it was skipped, reset, or its run cancelled) stays as it is;
        one that is done already and was asked again goes back or fails if that was the verdict.
        """
        phase = _find(gate)
        if phase is None:
            return
        board = Board.load(lock_run(phase.run_id))
        phase = board.phase(phase.pk)
        waits = phase.state == PhaseState.CHECKPOINT and phase.gate_asked == gate.key
        if board.run.archived_at or board.run.state == RunState.CANCELLED or not (waits or _was_passed(phase, gate)):
            return
        _OUTCOMES.get(decision.verdict, _approve)(board, phase, gate, decision)

    def lock(self, gate: Gate) -> None:
        """The run of the phase, with all its gates."""
        run_id = Phase.objects.filter(uuid=gate.subject_uuid).values_list("run_id", flat=True).first()
        if run_id is not None:
            lock_run(run_id)

    def closed(self, gate: Gate) -> None:
        """The gate ended without a decision: the phase says so, and goes on waiting until the gate is reopened."""
        phase = _find(gate)
        if phase is None or phase.state != PhaseState.CHECKPOINT or phase.gate_asked != gate.key:
            return
        reason = f"The gate {gate.title} is {gate.state_text}. Reopen it, skip the phase, or run it again."
        Phase.objects.filter(pk=phase.pk, gate_asked=gate.key).update(reason=reason)

    def reopened(self, gate: Gate) -> None:
        """A new iteration has begun: where the phase waits at this gate, it says nothing of the old one any more.

        InvalidTransition, so that it doesn't begin, where the run has been cancelled or archived.
        """
        phase = _find(gate)
        if phase is not None and (phase.run.archived_at or phase.run.state == RunState.CANCELLED):
            what = "archived" if phase.run.archived_at else "cancelled"
            raise InvalidTransition(f"Run {phase.run.name} is {what}: its gates are not asked again.")
        Phase.objects.filter(uuid=gate.subject_uuid, gate_asked=gate.key).update(reason="")

    def renewal(self, gate: Gate) -> Renewal | None:
        """The gate as the run's snapshot describes it."""
        phase = _find(gate)
        spec = _spec_of_gate(phase, gate.key) if phase else None
        return Renewal(**describe_gate(phase, spec)) if phase and spec else None

    def preparation(self, gate: Gate, commands: list[list[str]]) -> Preparation:
        """The renderers that a described gate names, with its files and the run's values; BadInput where they lack."""
        phase = _find(gate)
        if phase is None:
            raise BadInput("The phase that this gate is about isn't there.")
        return preparation(phase, gate, filled(phase, gate, commands))

    def url(self, gate: Gate) -> str:
        """The page of the phase; empty where there are no pages."""
        phase = _find(gate)
        try:
            return reverse("runs:phase", args=[phase.pk]) if phase else ""
        except NoReverseMatch:
            return ""

    def describe(self, gate: Gate) -> str:
        """Run and phase, in words."""
        phase = _find(gate)
        return f"{phase.run.name}, {phase.named}" if phase else gate.context


def author_of(decision: Decision) -> Author:
    """Who decided, so that what follows is done in the same name."""
    return Author(decision.actor_kind, decision.actor_name, decision.door, decision.actor)


def _approve(board: Board, phase: Phase, gate: Gate, decision: Decision) -> None:
    if phase.state == PhaseState.CHECKPOINT:
        pass_gate(phase, gate.key, decision)
        advance(board.run, board)


def _send_back(board: Board, phase: Phase, gate: Gate, decision: Decision) -> None:
    spec = _spec_of_gate(phase, gate.key)
    back_to = _phase_to_send_back_to(board, phase, spec.send_back_to if spec else "")
    reason = _reason(decision)
    message = f"sent back at the gate {gate.title} by {decision.actor_name}" + (f": {reason}" if reason else "")
    reset_from(board, back_to, author_of(decision), decision, message)


def _reject(board: Board, phase: Phase, gate: Gate, decision: Decision) -> None:
    reason = f"Rejected at the gate {gate.title} by {decision.actor_name}: {_reason(decision)}"
    done = phase.state == PhaseState.DONE
    if board.run.state == RunState.DONE:
        move_run(
            board.run,
            "reopen",
            message=f"{board.run.name}: {phase.named} was rejected",
            decision=decision,
            ended_at=None,
        )
    fail_phase(phase, reason, gate_asked="", rejected_by=decision)
    if done:
        later = [each for each in board.dependents(phase) if each.state == PhaseState.DONE]
        mark_stale(later, decision, f"{phase.named} was rejected since")
    advance(board.run)  # other lanes don't wait for it any more


_OUTCOMES = {APPROVE: _approve, SEND_BACK: _send_back, REJECT: _reject}


def _was_passed(phase: Phase, gate: Gate) -> bool:
    return phase.state == PhaseState.DONE and gate.key in phase.gates_passed


def _phase_to_send_back_to(board: Board, phase: Phase, key: str) -> Phase:
    """The phase called `key` in the same lane, or the shared one; the phase itself where none is named."""
    if not key:
        return phase
    lanes = (None, phase.species_id)
    return next((each for each in board.phases if each.key == key and each.species_id in lanes), phase)


def _spec_of_gate(phase: Phase, key: str) -> GateSpec | None:
    spec: PipelineSpec = spec_of(phase.run.snapshot)
    return next((gate for gate in spec.gates if gate.key == key), None)


def _reason(decision: Decision) -> str:
    statement = getattr(decision, "statement", None)
    return statement.reason if statement else ""


def _find(gate: Gate) -> Phase | None:
    return Phase.objects.with_run().filter(uuid=gate.subject_uuid).first()


KEEPER = PhaseKeeper()
