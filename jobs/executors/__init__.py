"""How a kind of target runs jobs. One adapter a kind; adapters import no models."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from django.utils.module_loading import import_string

from jobs.ownership import Ownership
from record.errors import BadInput

# kind of target -> the class that runs jobs there
EXECUTORS = {"local": "jobs.executors.local.LocalExecutor"}

TOKEN_VARIABLE = "CONDUCTOR_TOKEN"  # noqa: S105 - a variable's name; carried by every process of a job


@dataclass(frozen=True)
class Order:
    """What is to be run: one script, once."""

    token: str
    generation: int
    script: str
    script_name: str
    work_dir: str
    job_folder: str
    environment: dict[str, str]
    environment_lines: str
    stdout_path: str
    stderr_path: str
    ownership: Ownership = Ownership()

    @property
    def folder(self) -> str:
        """The token folder: everything that is known of this execution lies there."""
        return f"{self.job_folder}/{self.token}"

    @property
    def mark(self) -> str:
        """NAME=value that every process of the job has in its environment."""
        return f"{TOKEN_VARIABLE}={self.token}"


def job_environment(base: Mapping[str, str], own: Mapping[str, str], *, cpus: int, token: str) -> dict[str, str]:
    """A job's environment: `base` is what is allowed of the account's, `own` the job's; its mark goes over all."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(cpus))
    return {**base, **threads, **own, TOKEN_VARIABLE: token, "CONDUCTOR_CPUS": str(cpus)}


class Seen(StrEnum):
    """What the target knows of an execution."""

    NOTHING = "nothing"  # nobody has claimed it; what may still come to claim it can't be known
    ALIVE = "alive"
    NEVER_BEGAN = "never_began"  # its claimer is gone for good and the script never began: it may be tried again
    DIED = "died"  # it began, and nobody can say how it ended
    ENDED = "ended"
    CLOSED = "closed"  # we have closed it: it can never begin


@dataclass(frozen=True)
class Sighting:
    """An answer of the target about one execution. `exit_code` and `ended_at` are set where `seen` is ENDED.

    `processes` are identities of those that outlived its guard; `claims` is how many claimed it, one after another.
    """

    seen: Seen
    native_id: str = ""
    exit_code: int | None = None
    ended_at: datetime | None = None
    processes: list[str] = field(default_factory=list)
    claims: int = 0


class Executor(Protocol):
    """Runs jobs on one kind of target. Errors are AdapterError, with `transient` where waiting can help."""

    def submit(self, order: Order) -> str:
        """Hand the order over and answer its native id. Called again for a later generation, it never runs twice."""

    def look(self, order: Order) -> Sighting:
        """What has become of it. Reads only."""

    def remembers(self, order: Order) -> bool:
        """Whether the target still knows that this generation was handed over; else its notes were taken away."""

    def ask_to_end(self, order: Order, native_id: str) -> None:
        """Ask it to end (SIGTERM)."""

    def end(self, order: Order, native_id: str) -> list[str]:
        """Kill all of it; what is still there afterwards, by identity (an empty list: verified gone)."""

    def close(self, order: Order) -> Sighting:
        """See to it that what has not begun never begins; answers what was there first if somebody was quicker."""


def executor_for(kind: str) -> Executor:
    """The executor of a kind of target; BadInput for a kind that has none."""
    if kind not in EXECUTORS:
        raise BadInput(f"There is no executor for targets of the kind {kind}: there are {', '.join(EXECUTORS)}.")
    executor: Executor = import_string(EXECUTORS[kind])()
    return executor
