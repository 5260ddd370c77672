"""A job's logs as pages show them: bounded pieces, and in words why there is nothing to show."""

from dataclasses import dataclass

from jobs import logs
from jobs.logs import LogSlice
from jobs.models import Job
from jobs.shells import shell_for
from record.errors import ConductorError

NOWHERE = LogSlice("", 0, 0, 0)


@dataclass(frozen=True)
class Piece:
    """A part of a log, and where the parts before and after it begin (None: there is none). `problem`: in words."""

    slice: LogSlice
    earlier: int | None = None
    later: int | None = None
    problem: str = ""


def read_log(job: Job, stream: str, *, start: int | None = None, length: int = 0, lines: int = 0) -> Piece:
    """The bytes of a stream ("out" or "err") from `start`, at most `length`; without `start` its end.

    With `lines` that many last lines. What can't be read is told in `problem`.
    """
    path = job.stderr_path if stream == "err" else job.stdout_path
    if not path:
        return Piece(NOWHERE, problem="Not started yet.")
    if stream == "err" and path == job.stdout_path:
        return Piece(NOWHERE, problem="Errors go to the output's log.")
    try:
        shell = shell_for(job.target)
        if lines:
            return Piece(logs.tail(shell, path, lines=lines))
        if start is None:
            start = max(0, shell.size(path) - length)
        part = logs.slice(shell, path, start=start, length=length)
    except ConductorError as error:
        return Piece(NOWHERE, problem=error.message)
    earlier = max(0, part.start - length) if part.start > 0 else None
    return Piece(part, earlier=earlier, later=part.end if part.end < part.size else None)
