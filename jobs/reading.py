"""A job's logs as pages and API show them: bounded pieces, and in words why there is nothing to show."""

from dataclasses import dataclass

from jobs import logs
from jobs.logs import LogSlice
from jobs.models import Job, TargetKind
from jobs.shells import followed_within_roots, shell_for, within_roots
from jobs.states import JobState
from record.errors import ConductorError

NOWHERE = LogSlice("", 0, 0, 0)
NOTHING_WRITTEN = frozenset({JobState.PLANNED, JobState.SUBMITTING, JobState.QUEUED})


@dataclass(frozen=True)
class Piece:
    """A part of a log, and where the parts before and after it begin (None: there is none). `problem`: in words.

    `elsewhere`: it lies at a cluster, and has not been asked for; the page loads it by itself once it is shown.
    """

    slice: LogSlice
    earlier: int | None = None
    later: int | None = None
    problem: str = ""
    elsewhere: bool = False


def read_log(job: Job, stream: str, *, start: int | None = None, length: int = 0, lines: int = 0) -> LogSlice:
    """The bytes of a stream ("out" or "err") from `start`, at most `length`; without `start` its end.

    The end is the last `lines` lines, or without them the last `length` bytes. Empty before the job has run.
    The path is checked against the target's roots anew, since the job may have put a link in its log's place: BadInput
    where it leads out of them, AdapterError where it can't be read.
    """
    path = job.stderr_path if stream == "err" else job.stdout_path
    if not path or job.state in NOTHING_WRITTEN:
        return NOWHERE
    shell, path = shell_for(job.target), followed_within_roots(job.target, [within_roots(job.target, path)])[0]
    if start is None and lines:
        return logs.tail(shell, path, lines=lines)
    if start is None:
        start = max(0, shell.size(path) - length)
    return logs.slice(shell, path, start=start, length=length)


def show_tail(job: Job, stream: str, *, lines: int) -> Piece:
    """The end of a log, for a page that shows more than it: no page waits for a cluster."""
    written = job.state not in NOTHING_WRITTEN and (stream == "out" or job.stderr_path != job.stdout_path)
    if written and job.target.kind != TargetKind.LOCAL:
        return Piece(NOWHERE, elsewhere=True)
    return show_log(job, stream, lines=lines)


def show_log(job: Job, stream: str, *, start: int | None = None, length: int = 0, lines: int = 0) -> Piece:
    """What `read_log` reads, for a page: what can't be read is told in `problem`."""
    if job.state in NOTHING_WRITTEN:
        return Piece(NOWHERE, problem="Not started yet.")
    if stream == "err" and job.stderr_path == job.stdout_path:
        return Piece(NOWHERE, problem="Errors go to the output's log.")
    try:
        part = read_log(job, stream, start=start, length=length, lines=lines)
    except ConductorError as error:
        return Piece(NOWHERE, problem=error.message)
    if lines:
        return Piece(part)
    earlier = max(0, part.start - length) if part.start > 0 else None
    return Piece(part, earlier=earlier, later=part.end if part.end < part.size else None)
