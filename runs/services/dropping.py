"""Species that leave a run, and come back: each is a decision. The other lanes, and what joins them, go on without."""

from django.db import transaction

from jobs.models import Job
from jobs.services import stop_job
from record.access import Ability, require
from record.errors import BadInput, InvalidTransition
from record.models import Decision, Event
from record.services import Author, Ruling, record_decision, record_event
from runs.models import Phase, Species
from runs.services.asking import mark_stale, refuse_while_applied, withdraw_gates
from runs.services.board import Board, is_passed, lock_run, refuse_archived
from runs.services.engine import advance
from runs.services.joining import begun_after, begun_with
from runs.services.moves import move, move_run
from runs.states import PHASE, PhaseState, RunState


def drop_species(*, species: Species, author: Author, reason: str) -> Decision:
    """Go on without a species: what its lane has not done is skipped, its jobs are cancelled, its gates withdrawn.

    What was done stays, and what joined the lanes with it becomes stale. BadInput without a reason, InvalidTransition
    where it is dropped already, or is the last that takes part.
    """
    if not reason.strip():
        raise BadInput(f"Say why the species {species.label} is dropped.", code="reason_owed")
    with transaction.atomic():
        board, species = _lock(species, author)
        if species.dropped_by_id is not None:
            raise InvalidTransition(f"The species {species.label} has been dropped from {board.run.name} already.")
        if not board.run.species.taking_part().exclude(pk=species.pk).exists():
            raise InvalidTransition(f"{species.label} is the last species of {board.run.name}: cancel the run instead.")
        lane = _lane(board, species)
        refuse_while_applied(lane)
        decision = _decide(board, species, author, "drop_species", reason)
        Species.objects.filter(pk=species.pk).update(dropped_by=decision)
        words = f"the species {species.label} was dropped by {author.name}: {reason.strip()}"
        _say(board, species, author, "run.drop_species", decision, f"{board.run.name}: {words}")
        mark_stale(begun_with(board, species), decision, f"the species {species.label} was dropped since")
        _cancel_jobs(lane, author, words)
        for phase in lane:
            _skip(phase, words, decision)
        withdraw_gates(lane, author, words, decision)
        advance(board.run)
    return decision


def bring_species_back(*, species: Species, author: Author, reason: str = "") -> Decision:
    """Take a dropped species along again: its lane goes on where it stopped, what joined the others becomes stale.

    A run that was done is reopened. InvalidTransition where the species takes part.
    """
    with transaction.atomic():
        board, species = _lock(species, author)
        dropped_by = species.dropped_by
        if dropped_by is None:
            raise InvalidTransition(f"The species {species.label} takes part in {board.run.name}: it was not dropped.")
        decision = _decide(board, species, author, "bring_species_back", reason)
        Species.objects.filter(pk=species.pk).update(dropped_by=None)
        message = f"{board.run.name}: the species {species.label} brought back by {author.name}"
        _say(board, species, author, "run.bring_species_back", decision, message)
        lane = _lane(board, species)
        skipped = set(
            Event.objects.filter(kind="phase.skip", decision=dropped_by).values_list("subject_uuid", flat=True)
        )
        for phase in lane:
            if phase.uuid in skipped and phase.state == PhaseState.SKIPPED:
                move(phase, "reset", decision=decision, reason="", gates_passed=[], gate_asked="", ended_at=None)
        if board.run.state == RunState.DONE:
            move_run(board.run, "reopen", message=message, decision=decision, ended_at=None)
        mark_stale(begun_after(board, species), decision, f"the species {species.label} was brought back since")
        advance(board.run)
    return decision


def _lock(species: Species, author: Author) -> tuple[Board, Species]:
    run = lock_run(species.run_id)
    if author.user is not None:
        require(author.user, Ability.DECIDE, run.lab_id)
    refuse_archived(run)
    if run.state == RunState.CANCELLED:
        raise InvalidTransition(f"Run {run.name} is cancelled: its species stay as they are.")
    return Board.load(run), Species.objects.select_related("dropped_by").get(pk=species.pk, run=run)


def _lane(board: Board, species: Species) -> list[Phase]:
    return [phase for phase in board.phases if phase.species_id == species.pk]


def _decide(board: Board, species: Species, author: Author, verdict: str, reason: str) -> Decision:
    ruling = Ruling(verdict, reason=reason.strip(), answers={"species": species.label})
    return record_decision(lab_id=board.run.lab_id, subject=board.run.subject(), author=author, ruling=ruling)


def _say(board: Board, species: Species, author: Author, kind: str, decision: Decision, message: str) -> None:
    record_event(
        lab_id=board.run.lab_id,
        kind=kind,
        subject=board.run.subject(),
        message=message,
        data={"species": species.label, "by": author.name},
        decision=decision,
    )


def _cancel_jobs(lane: list[Phase], author: Author, reason: str) -> None:
    uuids = [phase.uuid for phase in lane]
    for job in Job.objects.live().filter(subject_uuid__in=uuids).order_by("id"):
        stop_job(job=job, author=author, reason=reason)


def _skip(phase: Phase, words: str, decision: Decision) -> None:
    """Skip what has not been done; what is done stays so, and is not done again."""
    if phase.again:
        Phase.objects.filter(pk=phase.pk).update(again=False)
        phase.again = False
    if is_passed(phase):
        return
    if not PHASE.allows(phase.state, "skip"):
        move(phase, "reset", decision=decision, gate_asked="")
    message = f"{phase.named}: skipped, {words}"
    move(phase, "skip", message=message, decision=decision, reason=f"Skipped: {words}.", gate_asked="")
