"""What lines of the log are about."""

from threading import Thread
from uuid import uuid4

import pytest

from record.logkeys import about, current_keys


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
