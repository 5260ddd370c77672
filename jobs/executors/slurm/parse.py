"""SLURM's answers as rows, and the rows of one job as its status. Pure.

Times are read as UTC: the commands are run with TZ=UTC. Names come last in a line, since they may hold the separator.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from jobs.executors.slurm.reasons import reason_of, waiting_words
from jobs.executors.slurm.states import Meaning, Standing, meaning_of

# job id, id of its array, index in the array, state, reason, submitted, started, ended, name
QUEUE_FORMAT = "%A|%F|%K|%T|%r|%V|%S|%e|%j"
ACCOUNTING_FORMAT = "JobID,JobIDRaw,State,ExitCode,Submit,Start,End,JobName"
TIME_CHARS = len("2026-11-30T12:00:00")
NO_TIME = frozenset({"", "N/A", "Unknown", "None", "NONE"})
ID = re.compile(r"^([0-9]{1,20})(?:;([A-Za-z0-9_.-]{1,90}))?\Z")
NUMBER = re.compile(r"[0-9]{1,20}")
CODE = re.compile(r"[0-9]{1,9}")
KEPT_CHARS = 2000  # of a line, with the job
# Of tasks that ended differently, the first of these counts for the whole array.
WORST_FIRST = ("fail_node", "preempt", "run_out_of_memory", "time_out", "fail", "cancel", "succeed")
SHOWN_TASKS = 8


@dataclass(frozen=True)
class Row:
    """What SLURM said of one job, or of tasks of an array. `task` is "", an index, or a range of them."""

    job_id: str
    task: str
    name: str
    state: str
    reason: str = ""
    submitted_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    exit_code: int | None = None
    exit_signal: int = 0
    raw: str = ""
    restarts: int = 0  # this and the next: only scontrol tells
    nodes: str = ""

    @property
    def meaning(self) -> Meaning:
        return meaning_of(self.state)


@dataclass(frozen=True)
class Status:
    """What SLURM's rows on one job come to. `raw` are its own lines; `reason` is in words."""

    job_id: str
    name: str
    meaning: Meaning
    reason: str = ""
    submitted_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    exit_code: int | None = None
    exit_signal: int = 0
    raw: list[str] = field(default_factory=list)
    restarts: int = 0
    nodes: str = ""


def parse_submission(stdout: str) -> str:
    """The native id (`123` or `123;cluster`) in what `sbatch --parsable` printed; "" where there is none.

    Sites print notices there too: the last line that is an id counts.
    """
    return next((line.strip() for line in reversed(stdout.split("\n")) if ID.match(line.strip())), "")


def split_native_id(native_id: str) -> tuple[str, str]:
    """(job id, cluster or "") of a native id; ("", "") for anything else."""
    found = ID.match(native_id)
    return (found[1], found[2] or "") if found else ("", "")


def parse_queue(stdout: str) -> list[Row]:
    """Rows of `squeue --noheader --format QUEUE_FORMAT`; lines of another form (notices of a site) are passed over."""
    rows = []
    for line in stdout.split("\n"):
        words = line.strip().split("|", 8)
        if len(words) == 9 and NUMBER.fullmatch(words[0]):
            job, array, index, state, reason, submitted, started, ended, name = words
            task = "" if index == "N/A" else index
            rows.append(
                Row(array if task else job, task, name, state, reason, _time(submitted), _time(started), _time(ended),
                    raw=line.strip()[:KEPT_CHARS])
            )  # fmt: skip
    return rows


def parse_accounting(stdout: str) -> list[Row]:
    """Rows of `sacct --noheader --parsable2 --allocations --format ACCOUNTING_FORMAT`."""
    rows = []
    for line in stdout.split("\n"):
        words = line.strip().split("|", 7)
        if len(words) == 8 and (found := re.match(r"^([0-9]+)(?:_\[?([^\]]*)\]?)?\Z", words[0])):
            code, signal = _exit(words[3])
            rows.append(
                Row(found[1], found[2] or "", words[7], words[2], "", _time(words[4]), _time(words[5]), _time(words[6]),
                    code, signal, line.strip()[:KEPT_CHARS])
            )  # fmt: skip
    return rows


def parse_show_job(stdout: str) -> list[Row]:
    """Rows of `scontrol --oneliner show job`: the first of each field counts."""
    rows = []
    for line in stdout.split("\n"):
        facts: dict[str, str] = {}
        for name, value in re.findall(r"(?:^| )([A-Za-z/:]+)=(\S*)", line):
            facts.setdefault(name, value)
        if NUMBER.fullmatch(facts.get("JobId", "")):
            code, signal = _exit(facts.get("ExitCode", ""))
            task = facts.get("ArrayTaskId", "")
            rows.append(
                Row(facts.get("ArrayJobId", facts["JobId"]) if task else facts["JobId"], task,
                    facts.get("JobName", ""), facts.get("JobState", ""), facts.get("Reason", ""),
                    _time(facts.get("SubmitTime", "")), _time(facts.get("StartTime", "")),
                    _time(facts.get("EndTime", "")), code, signal, line.strip()[:KEPT_CHARS],
                    int(facts["Restarts"]) if CODE.fullmatch(facts.get("Restarts", "")) else 0,
                    facts.get("NodeList", "").replace("(null)", ""))
            )  # fmt: skip
    return rows


def by_job(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """job id -> its rows; those of an array's tasks together."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.job_id, []).append(row)
    return found


def status_of(rows: list[Row], *, tasks: int | None = None) -> Status:
    """The status that the rows of one job come to; there must be at least one.

    An array runs while a task runs, waits while one waits, and has ended when all have. With `tasks`, the number that
    it was submitted with, it has not ended while fewer are accounted for. The worst end counts for the whole.
    """
    meaning, counting = _meaning_of_all(rows, tasks)
    reason = ""
    if meaning.standing == Standing.WAITING:
        reason = next((words for row in counting if (words := waiting_words(row.reason))), meaning.words)
    elif meaning.standing == Standing.ENDED:
        reason = _ended_words(rows, counting, meaning)
    else:
        reason = meaning.words if meaning.standing == Standing.UNSETTLED or counting[0].state != "RUNNING" else ""
    worst = counting[0]
    return Status(
        job_id=worst.job_id,
        name=worst.name,
        meaning=meaning,
        reason=reason,
        submitted_at=min((row.submitted_at for row in rows if row.submitted_at), default=None),
        started_at=min((row.started_at for row in rows if row.started_at), default=None),
        ended_at=max((row.ended_at for row in rows if row.ended_at), default=None)
        if meaning.standing == Standing.ENDED
        else None,
        exit_code=worst.exit_code,
        exit_signal=worst.exit_signal,
        raw=[row.raw for row in rows[:SHOWN_TASKS]],
        restarts=max(row.restarts for row in rows),
        nodes=worst.nodes,
    )


def likeliest(found: list[Status]) -> Status:
    """Of several submissions of one job the one to follow: one that has not ended, if there is one."""
    alive = [each for each in found if each.meaning.standing != Standing.ENDED]
    return (alive or found)[0]


def array_size(spec: str) -> int | None:
    """How many tasks `--array=SPEC` makes (`0-15`, `1,3,5-7`, `0-15:4%2`); None for what can't be read."""
    total = 0
    for part in spec.partition("%")[0].split(","):
        found = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,9})(?::([0-9]{1,9}))?)?", part.strip())
        if not found:
            return None
        first, last, step = int(found[1]), int(found[2] or found[1]), int(found[3] or 1)
        if last < first or step < 1:
            return None
        total += (last - first) // step + 1
    return total


def _meaning_of_all(rows: list[Row], tasks: int | None) -> tuple[Meaning, list[Row]]:
    """(what the rows mean together, the rows that make it so, the one that stands for them first)."""
    for standing in (Standing.RUNNING, Standing.WAITING, Standing.UNSETTLED):
        if counting := [row for row in rows if row.meaning.standing == standing]:
            return counting[0].meaning, counting
    if tasks is not None and len({row.task for row in rows}) < tasks:
        words = f"Of its {tasks} tasks SLURM knows {len(rows)}: the others' end is not known."
        return Meaning(Standing.UNSETTLED, words=words), rows
    worst = min(rows, key=lambda row: WORST_FIRST.index(row.meaning.event))
    return worst.meaning, [worst, *(row for row in rows if row.meaning.event == worst.meaning.event and row != worst)]


def _ended_words(rows: list[Row], counting: list[Row], meaning: Meaning) -> str:
    words = meaning.words
    if len(rows) > 1 and meaning.event != "succeed":
        names = ", ".join(row.task for row in counting[:SHOWN_TASKS])
        more = " and more" if len(counting) > SHOWN_TASKS else ""
        words = f"{len(counting)} of its {len(rows)} tasks: {names}{more}. {words}"
    why = reason_of(counting[0].reason)
    if meaning.event == "cancel" and why.needs_somebody:
        words = words.replace("at the cluster", f"at the cluster: {why.words} ({counting[0].reason})")
    if by := re.search(r"by (\d+)$", counting[0].state):
        words = words.replace("at the cluster", f"at the cluster by the user with the number {by[1]}")
    return words


def _exit(text: str) -> tuple[int | None, int]:
    """(exit code, signal) of `code:signal`."""
    code, _, signal = text.partition(":")
    return (int(code), int(signal)) if CODE.fullmatch(code) and CODE.fullmatch(signal) else (None, 0)


def _time(text: str) -> datetime | None:
    if text in NO_TIME or len(text) != TIME_CHARS:
        return None
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC)  # strptime takes ten times as long
    except ValueError:
        return None
