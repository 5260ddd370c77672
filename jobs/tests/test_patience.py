"""Doing what is due row by row."""

import pytest
from django.db import IntegrityError, OperationalError

from jobs.patience import Patience


def test_rows_that_fail_take_nobodys_turn() -> None:
    patience, done = Patience(), []

    def act(key: int) -> bool:
        if key < 5:
            raise IntegrityError("about this row alone")
        done.append(key)
        return True

    assert patience.each(range(7), act, most=5) == 0
    assert patience.each(range(7), act, most=5) == 2
    assert done == [5, 6]


def test_a_database_that_is_away_is_no_rows_fault() -> None:
    patience = Patience()

    def act(key: int) -> bool:
        raise OperationalError("database is locked")

    with pytest.raises(OperationalError):
        patience.each([1, 2], act)
    assert patience.allows("act 1")


def test_waits_grow_up_to_the_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0
    monkeypatch.setattr("jobs.patience.time.monotonic", lambda: now_s)
    patience = Patience(longest_s=4)
    for wait_s in (1, 2, 4, 4):
        patience.failed("row")
        now_s += wait_s - 0.1
        assert not patience.allows("row")
        now_s += 0.1
        assert patience.allows("row")
    patience.succeeded("row")
    patience.failed("row")
    now_s += 1
    assert patience.allows("row")
