"""Many at once: one winner, and a clear word to the others."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from gates.errors import GateClosed
from gates.models import Gate
from gates.services import apply_gate, reopen_gate, time_out_gate
from gates.tests.doubles import Keeper, Threshold, answer, ask
from record.access import Role
from record.errors import ConductorError
from record.models import ChainHead, Decision, Door, Lab
from record.services import Author
from record.tests.factories import People, make_lab, make_people, make_person

pytestmark = pytest.mark.django_db(transaction=True)


def at_once(calls: list[Callable[[], Any]]) -> list[Any]:
    """What each call answered or raised, all let go at the same moment, each in a thread with its own connection."""
    start = Barrier(len(calls))

    def one(call: Callable[[], Any]) -> Any:
        try:
            start.wait(timeout=30)
            return call()
        except Exception as error:
            return error
        finally:
            connection.close()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(one, calls))


@pytest.fixture
def lab() -> Lab:
    return make_lab()


@pytest.fixture
def people(lab: Lab) -> People:
    return make_people(lab)


def test_fifty_answers_at_once_leave_one_decision(lab: Lab) -> None:
    voters = [make_person(f"reviewer{number}", lab, Role.REVIEWER) for number in range(50)]
    gate = ask(lab)

    outcomes = at_once([lambda voter=voter: answer(gate, voter) for voter in voters])

    gate.refresh_from_db()
    winner = Decision.objects.get()
    refusals = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    assert gate.state == "decided" and gate.decision == winner
    assert len(refusals) == 49 and all(isinstance(refusal, GateClosed) for refusal in refusals)
    assert all(f"approve by {winner.actor_name} on " in refusal.message for refusal in refusals)
    assert gate.ballots.count() == 1 and ChainHead.objects.get().count == 1


def test_of_two_last_ballots_one_decides(lab: Lab) -> None:
    voters = [make_person(f"reviewer{number}", lab, Role.REVIEWER) for number in range(8)]
    gate = ask(lab, policy={"quorum": 4})

    outcomes = at_once([lambda voter=voter: answer(gate, voter) for voter in voters])

    decided = [outcome for outcome in outcomes if not isinstance(outcome, Exception) and outcome.decision]
    assert len(decided) == 1 and Decision.objects.count() == 1
    assert gate.ballots.count() == 4
    assert sum(isinstance(outcome, GateClosed) for outcome in outcomes) == 4


@pytest.mark.parametrize("attempt", range(5))
def test_an_answer_races_the_time_out(lab: Lab, people: People, keeper: Keeper, attempt: int) -> None:
    gate = ask(lab, policy={"due_s": 60})
    Gate.objects.update(due_at=timezone.now() - timedelta(seconds=1))

    answered, timed_out = at_once([lambda: answer(gate, people.reviewer), lambda: time_out_gate(gate.pk)])

    gate.refresh_from_db()
    if timed_out:
        assert gate.state == "timed_out" and not Decision.objects.exists()
        assert isinstance(answered, GateClosed) and "timed out" in answered.message
        assert keeper.calls == [("closed", gate.pk)]
    else:
        assert gate.state == "decided" and answered.decision == Decision.objects.get()
        assert keeper.calls == []


def test_applied_by_many_at_once_takes_effect_once(
    lab: Lab, people: People, keeper: Keeper, threshold: Threshold
) -> None:
    gate = ask(lab)
    answer(gate, people.reviewer)

    outcomes = at_once([lambda: apply_gate(gate.pk)] * 8)

    gate.refresh_from_db()
    assert gate.state == "applied" and sorted(outcomes) == [False] * 7 + [True]
    assert keeper.calls == [("applied", gate.pk)] and len(threshold.persisted) == 1


def test_reopened_by_many_at_once_begins_one_iteration(lab: Lab, people: People) -> None:
    gate = ask(lab)
    answer(gate, people.reviewer)
    apply_gate(gate.pk)
    author = Author.person(people.reviewer, Door.WEB)

    outcomes = at_once([lambda: reopen_gate(gate_id=gate.pk, author=author, reason="Look again.")] * 8)

    assert Gate.objects.count() == 2 and sum(isinstance(outcome, Gate) for outcome in outcomes) == 1
    assert all(isinstance(outcome, Gate | ConductorError) for outcome in outcomes)
