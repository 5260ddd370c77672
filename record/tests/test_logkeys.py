"""What lines of the log are about."""

import logging
import sys
from threading import Thread
from uuid import uuid4

import pytest

from record.logkeys import about, current_keys, keys_of


def test_keys_hold_inside_and_add_up() -> None:
    run = uuid4()
    assert current_keys() == {}
    with about(run=run, target=None, job=""):
        assert current_keys() == {"run": str(run)}
        with about(job="j1x"):
            assert current_keys() == {"run": str(run), "job": "j1x"}
        assert current_keys() == {"run": str(run)}
    assert current_keys() == {}


def test_they_go_with_an_exception_and_stay_in_their_thread() -> None:
    seen: list[dict[str, str]] = []
    with pytest.raises(ValueError, match="over"), about(job="j1x"):
        other = Thread(target=lambda: seen.append(current_keys()))
        other.start()
        other.join()
        raise ValueError("over")
    assert (current_keys(), seen) == ({}, [{}])


def test_the_line_that_tells_of_an_exception_carries_what_it_was_about() -> None:
    try:
        with about(run="r"), about(job="j1x"):
            raise ValueError("over")
    except ValueError:
        with about(target="gpu"):
            told = keys_of(logging.LogRecord("n", logging.ERROR, "f", 1, "it failed", (), sys.exc_info()))
    assert told == {"run": "r", "job": "j1x", "target": "gpu"}
    assert keys_of(logging.LogRecord("n", logging.INFO, "f", 1, "well", (), None)) == {}
