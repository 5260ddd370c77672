"""Times, amounts and states as people read them."""

from datetime import UTC, datetime, timedelta

import pytest
import time_machine

from conductor_site.templatetags import words
from gates.states import GateState
from jobs.states import JobState
from runs.states import PhaseState, RunState

NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (59, "59 s"),
        (61, "1 min 1 s"),
        (3600, "1 h"),
        (9_660, "2 h 41 min"),
        (90_000, "1 d 1 h"),
        (None, ""),
    ],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert words.duration(seconds) == text


@time_machine.travel(NOW, tick=False)
def test_ages_and_deadlines() -> None:
    assert words.since(NOW - timedelta(minutes=2, seconds=13)) == "2 min"
    assert words.since(NOW - timedelta(days=1, hours=3)) == "1 d 3 h"
    assert words.until(NOW + timedelta(hours=23)) == "in 23 h"
    assert words.until(NOW - timedelta(hours=2)) == "overdue by 2 h"
    assert "30 November 2026" in words.ago(NOW)


def test_every_state_has_a_look_and_a_word() -> None:
    for state in [*GateState.values, *JobState.values, *PhaseState.values, *RunState.values]:
        assert state in words.LOOKS


def test_only_what_waits_for_a_person_is_amber() -> None:
    assert [state for state, (look, _) in words.LOOKS.items() if look == "waiting"] == ["open"]


def test_a_state_is_escaped() -> None:
    assert words.status("<b>") == '<span class="st st-idle">&lt;b&gt;</span>'


@pytest.mark.parametrize(("size", "text"), [(0, "0 B"), (1536, "1.5 KiB"), (5 * 1024**3, "5.0 GiB"), (None, "")])
def test_sizes(size: int | None, text: str) -> None:
    assert words.filesize(size) == text
