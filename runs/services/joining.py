"""Phases over all species: which of them have begun with or without one that comes, goes or comes back."""

from runs.models import Phase, Species
from runs.services.board import Board
from runs.states import PhaseState

_BEGUN = (PhaseState.RUNNING, PhaseState.VERIFYING, PhaseState.CHECKPOINT, PhaseState.DONE)


def begun_after(board: Board, species: Species) -> list[Phase]:
    """Phases outside the species' lane that come after it and have begun, in order."""
    lane = {phase.pk for phase in board.phases if phase.species_id == species.pk}
    after = [phase for pk in lane for phase in board.dependents(board.phase(pk)) if phase.pk not in lane]
    found = {phase.pk for phase in after if phase.state in _BEGUN}
    return [phase for phase in board.phases if phase.pk in found]


def begun_without(board: Board, species: Species) -> list[Phase]:
    """Those that have begun before the species had come so far: all of them, as long as it hasn't."""
    return [] if _has_arrived(board, species) else begun_after(board, species)


def begun_with(board: Board, species: Species) -> list[Phase]:
    """Those that have begun with what the species' lane made."""
    return begun_after(board, species) if _has_arrived(board, species) else []


def _has_arrived(board: Board, species: Species) -> bool:
    """Whether a phase over all species has had what it needs of this lane."""
    return any(
        needed.species_id == species.pk and needed.state == PhaseState.DONE
        for phase in board.phases
        if phase.species_id is None and phase.state in _BEGUN
        for needed in board.needs[phase.pk]
    )
