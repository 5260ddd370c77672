"""A run goes on by those phases only that can go on: that comes to the same as going on by all of them."""

import random
from typing import Any

import pytest
from django.db import transaction

from runs.models import Phase, Run
from runs.services.board import Board, lock_run
from runs.services.engine import advance
from runs.states import PhaseState
from runs.tests.factories import Bench, phase_of

pytestmark = pytest.mark.django_db

STATES = [PhaseState.PENDING, PhaseState.PENDING, PhaseState.DONE, PhaseState.DONE, *PhaseState]


def fate(run: Run, board: Any) -> list[tuple[Any, ...]]:
    """What an advance on that board makes of the run and its phases; it is undone again."""
    with transaction.atomic():
        locked = lock_run(run.pk)
        advance(locked, board(locked))
        phases = Phase.objects.filter(run=run).order_by("pk")
        found = [*phases.values_list("key", "state", "again", "gate_asked"), (Run.objects.get(pk=run.pk).state,)]
        transaction.set_rollback(True)
    return found


def throw(run: Run, dice: random.Random) -> None:
    """Put every phase into a state by chance, done ones sometimes to be run again."""
    for phase in Phase.objects.filter(run=run):
        state = dice.choice(STATES)
        again = state == PhaseState.DONE and dice.random() < 0.4
        Phase.objects.filter(pk=phase.pk).update(state=state, again=again)


def test_it_comes_to_the_same_from_any_state(bench: Bench) -> None:
    run, dice = bench.begin(), random.Random(6)  # noqa: S311 - states to try, no secrets
    moved = 0
    for _ in range(150):
        throw(run, dice)
        before = list(Phase.objects.filter(run=run).order_by("pk").values_list("key", "state", "again", "gate_asked"))
        by_all, by_few = fate(run, Board.load), fate(run, Board.at_hand)
        assert by_few == by_all
        moved += by_all[:-1] != before
    assert moved > 30


def test_what_waits_for_a_pending_phase_is_not_read(bench: Bench) -> None:
    run = bench.begin()
    with transaction.atomic():
        assert [phase.key for phase in Board.at_hand(lock_run(run.pk)).phases] == ["1", "2"]


def test_one_to_be_run_again_after_a_pending_one_waits(bench: Bench) -> None:
    run = bench.begin()
    Phase.objects.filter(pk=phase_of(run, "3b", "alpha").pk).update(state=PhaseState.DONE, again=True)
    with transaction.atomic():
        board = Board.at_hand(lock_run(run.pk))
        last = board.phase(phase_of(run, "3b", "alpha").pk)
        assert not board.is_free(last)
        advance(board.run, board)
    assert phase_of(run, "3b", "alpha").state == PhaseState.DONE
