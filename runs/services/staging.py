"""A gate of a replay put to people once more, and the run put back afterwards to what it was before."""

from typing import Any

from django.db import transaction
from django.utils.dateparse import parse_datetime

from record.access import Ability, require
from record.errors import InvalidTransition
from record.models import Decision
from record.services import Author, Ruling, record_decision, record_event
from runs.models import Phase, Run, Species, Staging, TiltSeries
from runs.services.asking import refuse_while_applied, withdraw_gates
from runs.services.board import Board, lock_run, refuse_archived
from runs.services.control import reset_from
from runs.services.engine import advance
from runs.services.moves import move, move_run
from runs.states import PASSED, PhaseState, RunState

KEPT = (
    "state", "gates_passed", "reason", "completion", "items_done", "items_total", "outputs", "files", "stale_by_id",
)  # fmt: skip
MOMENTS = ("ended_at", "stale_since")


def stage_gates_again(*, phase: Phase, author: Author, reason: str = "") -> Decision:
    """Put the gates of a replay's phase to people again, with evidence made anew; everything after it waits.

    What the run was is kept first: `restore_staging` puts it back. One staging at a time; InvalidTransition else, and
    for a run that is no replay.
    """
    with transaction.atomic():
        board = _lock(phase.run_id, author)
        phase = board.phase(phase.pk)
        gates = [each.key for where in ("before", "after") for each in board.spec.gates_at(phase.key, where)]
        if not set(gates) & set(phase.gates_passed):
            raise InvalidTransition(f"{phase.named} has passed no gate yet: there is none to stage again.")
        if open_staging(board.run) is not None:
            raise InvalidTransition(f"A gate of {board.run.name} is staged again already: put the run back first.")
        later = [phase, *board.dependents(phase)]
        refuse_while_applied(later)
        decision = _decide(board.run, author, "stage_again", reason)
        Staging.objects.create(run=board.run, phase=phase, decision=decision, before=_snapshot(board))
        reset_from(board, phase, author, decision, f"staged again by {author.name}", keep_outputs=True)
    return decision


def restore_staging(*, run: Run, author: Author, reason: str = "") -> Decision:
    """Put a replay back to what it was before its gate was staged again: values, exclusions, phases, passed gates.

    What was decided meanwhile stays in the record; its effects are undone. InvalidTransition where nothing is staged.
    """
    with transaction.atomic():
        board = _lock(run.pk, author)
        run = board.run
        staging = open_staging(run)
        if staging is None:
            raise InvalidTransition(f"No gate of {run.name} is staged again: there is nothing to put back.")
        refuse_while_applied(board.phases)
        decision = _decide(run, author, "restore", reason)
        Staging.objects.filter(pk=staging.pk).update(restored_by=decision)
        if run.state == RunState.DONE:
            message = f"{run.name}: put back to before its gate was staged again"
            move_run(run, "reopen", message=message, decision=decision, ended_at=None)
        withdraw_gates(board.phases, author, "the run was put back", decision)
        _put_back_values(run, staging.before)
        _put_back_series(run, staging.before["excluded"], author, decision)
        for phase in board.phases:
            if row := staging.before["phases"].get(str(phase.pk)):
                _put_back(phase, row, decision)
        advance(run)
    return decision


def open_staging(run: Run) -> Staging | None:
    """The staging that the run has not been put back from yet."""
    return Staging.objects.filter(run=run, restored_by=None).first()


def _lock(run_id: int, author: Author) -> Board:
    run = lock_run(run_id)
    if author.user is not None:
        require(author.user, Ability.OPERATE, run.lab_id)
    refuse_archived(run)
    if not run.replay:
        raise InvalidTransition(f"Run {run.name} is no replay: reopen its gate, or run the phase again.")
    if run.state == RunState.CANCELLED:
        raise InvalidTransition(f"Run {run.name} is cancelled: its gates are not staged any more.")
    return Board.load(run)


def _snapshot(board: Board) -> dict[str, Any]:
    phases = Phase.objects.filter(run=board.run)
    return {
        "conf": board.run.conf,
        "species": {str(each.pk): each.conf for each in board.run.species.all()},
        "dropped": {str(each.pk): each.dropped_by_id for each in board.run.species.all()},
        "excluded": {str(each.pk): each.excluded_by_id for each in board.run.tilt_series.all()},
        "phases": {str(phase.pk): _row(phase) for phase in phases},
    }


def _row(phase: Phase) -> dict[str, Any]:
    moments = {name: getattr(phase, name).isoformat() if getattr(phase, name) else None for name in MOMENTS}
    return {name: getattr(phase, name) for name in KEPT} | moments


def _put_back_values(run: Run, before: dict[str, Any]) -> None:
    Run.objects.filter(pk=run.pk).update(conf=before["conf"])
    run.conf = before["conf"]
    for pk, conf in before["species"].items():
        dropped_by = before.get("dropped", {}).get(pk)
        Species.objects.filter(pk=int(pk), run=run).update(conf=conf, dropped_by=dropped_by)


def _put_back_series(run: Run, excluded: dict[str, int | None], author: Author, decision: Decision) -> None:
    """Exclusions as they were; of each that changes the log tells."""
    for series in TiltSeries.objects.filter(run=run).order_by("id"):
        was = excluded.get(str(series.pk))
        if was == series.excluded_by_id:
            continue
        TiltSeries.objects.filter(pk=series.pk).update(excluded_by=was)
        record_event(
            lab_id=run.lab_id,
            kind="series.exclude" if was else "series.include",
            subject=series.subject(),
            message=f"{series.name}: as before the gate was staged again, by {author.name}",
            decision=decision,
        )


def _put_back(phase: Phase, row: dict[str, Any], decision: Decision) -> None:
    """The phase as it was where it was done or skipped; else from its start, so that it is looked for again."""
    changes = {name: row[name] for name in KEPT if name != "state"}
    changes |= {name: parse_datetime(row[name]) if row[name] else None for name in MOMENTS}
    changes |= {"gate_asked": "", "again": False, "afresh": False}
    message = f"{phase.named}: as it was before"
    was = PhaseState(row["state"])
    if was == phase.state and was in PASSED:
        Phase.objects.filter(pk=phase.pk).update(**changes)
        return
    if phase.state != PhaseState.PENDING:
        move(phase, "reset", message=message, decision=decision, **changes)
    else:
        Phase.objects.filter(pk=phase.pk).update(**changes)
    if was in PASSED:
        event = "put_back" if was == PhaseState.DONE else "skip"
        move(phase, event, message=message, decision=decision)


def _decide(run: Run, author: Author, verdict: str, reason: str) -> Decision:
    ruling = Ruling(verdict, reason=reason.strip())
    return record_decision(lab_id=run.lab_id, subject=run.subject(), author=author, ruling=ruling)
