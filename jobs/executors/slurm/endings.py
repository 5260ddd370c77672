"""How a job on a cluster ended: by the scheduler's word, the exit files, the end of its error log. Pure."""

import re
from collections.abc import Callable
from datetime import timedelta

from jobs.endings import Ending, exit_words
from jobs.executors.guard import LOST_CLAIM, NO_CLAIM
from jobs.executors.slurm.parse import Status
from jobs.executors.slurm.scripts import TokenFolder
from jobs.executors.slurm.states import STATES, Standing

# What slurmstepd writes into a job's error log, over the versions: https://slurm.schedmd.com/faq.html and its source.
_MEMORY = re.compile(r"slurmstepd\S*: .*(exceeded (job )?memory limit|oom[-_ ]kill|Out Of Memory)", re.IGNORECASE)
_CANCELLED = re.compile(r"slurmstepd\S*: .*CANCELLED AT .*(DUE TO (TIME LIMIT|NODE FAILURE|PREEMPTION))", re.IGNORECASE)
_ENDED = re.compile(r"slurmstepd\S*: .*CANCELLED AT ", re.IGNORECASE)  # ... DUE TO something, or by somebody
_FROM_OUTSIDE = frozenset({"cancel", "time_out", "fail_node", "preempt"})
AT_ONCE = timedelta(seconds=15)  # in which a launch fails: SLURM's MessageTimeout is 10 s unless set, and a little
_BY_LOG = {
    "TIME LIMIT": ("time_out", "It ran into its time limit."),
    "NODE FAILURE": ("fail_node", "A node on which it ran failed."),
    "PREEMPTION": ("preempt", "It had to make room for another job."),
}


def is_complete(folder: TokenFolder, job_id: str, tasks: int | None) -> bool:
    """Whether exit files say how all of a job ended: one, or one for each task of an array."""
    return len(folder.ends_of(job_id)) >= (tasks or 1)


def ending_of(
    *, job_id: str, status: Status | None, folder: TokenFolder, tasks: int | None, stopping: str, log_tail: str
) -> Ending | None:
    """The ending that follows; None where nothing can be concluded yet.

    `status` counts only where it has ended for good. `stopping` says in words that we were asked to end it: what the
    cluster then calls cancelled, or what died by a signal, was cancelled by us. `log_tail` is the end of its error log.
    """
    ended = status if status is not None and status.meaning.standing == Standing.ENDED else None
    files = folder.ends_of(job_id)
    if ended is None and not is_complete(folder, job_id, tasks):
        return None
    code = max((each for each, _ in files.values()), default=None)
    at = (ended.ended_at if ended else None) or max((when for _, when in files.values()), default=None)
    event, reason = _judge(ended, code, log_tail, whole=is_complete(folder, job_id, tasks))
    if stopping and (event == "cancel" or (event == "fail" and _by_signal(code, ended))):
        event, reason = "cancel", stopping
    if code is None and ended is not None and event in ("succeed", "fail"):
        code = ended.exit_code
    return Ending(event, reason, code, at)


def is_of_a_twin(status: Status, folder: TokenFolder, job_id: str) -> bool:
    """Whether what ended is a guard that found the job taken by another submission: never the job's own result."""
    return folder.owner_id not in ("", job_id) and not folder.ends_of(job_id)


def never_launched(status: Status, folder: TokenFolder, *, show: Callable[[], Status | None]) -> str:
    """In words, that a job of which nothing began ended only because it could not be launched; else "".

    A hung node or controller leaves such jobs: they run into their time limit without a process, or a daemon cancels
    them, after SLURM started them anew although they are not to be (seen with 22.05: `Restarts=1` with `Requeue=0`) or
    as soon as they had a node. Nobody asked for either. `show` asks the controller, only where it matters. A folder
    that was taken away tells of no start, and of none that was not.
    """
    if folder.absent or folder.owner or folder.started or folder.exits:
        return ""
    if status.meaning == STATES["TIMEOUT"]:
        return "its time ran out, and nothing of it had begun"
    if status.meaning == STATES["CANCELLED"] and (shown := show()) and (shown.restarts or _ended_at_once(shown)):
        return "the cluster could not launch it, and ended it before it began"
    return ""


def _ended_at_once(shown: Status) -> bool:
    """Whether it had a node, and ended as soon as it had it; what is cancelled while it waits never has one."""
    if not (shown.nodes and shown.started_at and shown.ended_at):
        return False
    return shown.ended_at - shown.started_at <= AT_ONCE


def is_second_start(status: Status, folder: TokenFolder, job_id: str) -> bool:
    """Whether what ended is a guard that found the job begun under its own id: that start's end is the job's."""
    lost = status.meaning.event == "fail" and status.exit_code == LOST_CLAIM
    return lost and folder.owner_id == job_id and not folder.ends_of(job_id)


def _judge(ended: Status | None, code: int | None, log_tail: str, *, whole: bool) -> tuple[str, str]:
    """(event, why in words). `whole`: the exit files say how all of it ended, so that a code of 0 is of all."""
    event = ended.meaning.event if ended else ("fail" if code else "succeed")
    if event == "succeed" and code:
        event = "fail"  # the guard ends as the script did; where they differ the script's own word counts
    if event in _FROM_OUTSIDE and whole and code is not None and code <= 128 and not _ENDED.search(log_tail):
        event = "fail" if code else "succeed"  # it had ended by itself, and the cluster did not hear of it in time
    if event != "fail":
        return event, ended.reason if ended else ""
    if _MEMORY.search(log_tail):
        return "run_out_of_memory", f"It used more memory than it had asked for. {_said(log_tail, _MEMORY)}"
    if whole and code == 0:
        return (
            "succeed",
            "",
        )  # what failed after the script had ended well (its guard, an epilog) is not the script's end
    if found := _CANCELLED.search(log_tail):
        return _BY_LOG[found[2].upper()]
    return "fail", _failed_words(ended, code)


def _failed_words(ended: Status | None, code: int | None) -> str:
    several = f"{ended.reason} " if ended and ended.reason.startswith(tuple("123456789")) else ""
    if code is not None:
        return f"{several}{exit_words(code)}"
    if ended is None:
        return several
    if ended.exit_signal:
        return (
            f"{several}It was ended by signal {ended.exit_signal} before it could say how it went. "
            "See the end of its error log."
        )
    if ended.exit_code == NO_CLAIM:
        return "The job's guard could not write into the token folder: is the job folder there on the nodes?"
    if ended.exit_code == LOST_CLAIM:
        return "The job was taken by another submission, which is not known any more."
    raw = next((word for line in ended.raw for word in ("JobLaunchFailure", "BadConstraints") if word in line), "")
    if raw == "JobLaunchFailure":
        return "SLURM could not launch it, or killed it (JobLaunchFailure): is its work folder there on the nodes?"
    if raw == "BadConstraints":
        return "SLURM can't ever start it: no node has what it asks for (BadConstraints)."
    return f"{several}{ended.meaning.words} It left no exit code. See the end of its error log.".strip()


def _by_signal(code: int | None, ended: Status | None) -> bool:
    return (code is not None and code > 128) or (code is None and ended is not None)


def _said(text: str, pattern: re.Pattern[str]) -> str:
    found = pattern.search(text)
    line = next((line for line in text.splitlines() if found and found[0] in line), "")
    return f"({line.strip()[:200]})" if line else ""
