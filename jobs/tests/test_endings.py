"""How an end is put into words."""

from datetime import UTC, datetime, timedelta

import pytest

from jobs.endings import ending_of, exit_words
from jobs.executors import Seen, Sighting

GRAIN = timedelta(milliseconds=10)
EARLY, LATE = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)


def stopping(at: datetime) -> dict[str, str]:
    return {"event": "time_out", "message": "too long", "at": at.isoformat()}


@pytest.mark.parametrize(
    ("sighting", "note", "event"),
    [
        (Sighting(Seen.ENDED, "x", 0, EARLY), {}, "succeed"),
        (Sighting(Seen.ENDED, "x", 1, EARLY), {}, "fail"),
        (Sighting(Seen.DIED, "x"), {}, "fail"),
        (Sighting(Seen.ENDED, "x", 143, LATE), stopping(EARLY), "time_out"),
        (Sighting(Seen.ENDED, "x", 0, EARLY), stopping(LATE), "succeed"),  # it had ended by itself before
        (Sighting(Seen.ENDED, "x", 143, EARLY), stopping(EARLY + GRAIN), "time_out"),  # by a clock of 10 ms
        (Sighting(Seen.ENDED, "x", 0, EARLY), stopping(EARLY + GRAIN), "time_out"),  # it may have tidied up
        (Sighting(Seen.ENDED, "x", 0, EARLY), stopping(EARLY + 3 * GRAIN), "succeed"),
        (Sighting(Seen.DIED, "x"), stopping(EARLY), "time_out"),
        (Sighting(Seen.CLOSED), stopping(EARLY), "time_out"),
    ],
)
def test_endings(sighting: Sighting, note: dict[str, str], event: str) -> None:
    assert ending_of(sighting, note).event == event


def test_exit_codes_in_words() -> None:
    assert exit_words(0) == ""
    assert "ended by signal 9 (SIGKILL)" in exit_words(137)
    assert "can't be run" in exit_words(126)
    assert exit_words(200) == "Exit code 200. See the end of its error log."
