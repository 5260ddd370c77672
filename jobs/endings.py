"""How a job ended, in words and as an event of the state table. Pure."""

import signal
from dataclasses import dataclass
from datetime import datetime, timedelta

from jobs.executors import Seen, Sighting

NOT_RUNNABLE, NOT_FOUND = 126, 127
CLOCK_GRAIN = timedelta(milliseconds=20)  # of a guard's time of ending: two readings of /proc/uptime, in 10 ms


@dataclass(frozen=True)
class Ending:
    """What is written into the row. `event` is one of the state table's."""

    event: str
    reason: str
    exit_code: int | None = None
    ended_at: datetime | None = None


def ending_of(sighting: Sighting, stopping: dict[str, str]) -> Ending:
    """The ending of an execution that is over (seen ENDED, DIED or CLOSED).

    `stopping` is the row's own note of why we are ending it (event, message, at), or empty. It decides only if the
    script had not ended before: what ended by itself, ended by itself.
    """
    if stopping and not _ended_before(sighting, datetime.fromisoformat(stopping["at"])):
        return Ending(stopping["event"], stopping["message"], sighting.exit_code, sighting.ended_at)
    if sighting.seen != Seen.ENDED:
        return Ending(
            "fail",
            "The job's guard was killed while the script was running: how the script would have ended is not known. "
            "Its remaining processes were ended. Look at its outputs and try it again.",
        )
    code = sighting.exit_code or 0
    return Ending("fail" if code else "succeed", exit_words(code), code, sighting.ended_at)


def exit_words(code: int) -> str:
    """What an exit code says, for people; "" for 0. Codes above 128 are what a shell makes of a signal."""
    if code == 0:
        return ""
    if code == NOT_RUNNABLE:
        return "Exit code 126: a command of the script was found but can't be run. See the end of its error log."
    if code == NOT_FOUND:
        return "Exit code 127: a command of the script was not found. See the end of its error log."
    if name := _signal_name(code - 128):
        return f"Exit code {code}: ended by signal {code - 128} ({name}). See the end of its error log."
    return f"Exit code {code}. See the end of its error log."


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return ""


def _ended_before(sighting: Sighting, moment: datetime) -> bool:
    """Whether it had surely ended by itself: where the clock is too coarse to tell, it had been asked to end.

    A script that tidies up when it is asked to end has exit code 0, too.
    """
    return sighting.ended_at is not None and sighting.ended_at + CLOCK_GRAIN < moment
