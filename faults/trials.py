"""What is counted. A trial is one job, or one gate, that was in flight when a fault befell those who deal with it.

It is counted once, under the first thing that befell it, however many follow.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Fault:
    """What was done (`kill -9`, `stop`), to whom, at which boundary; `excuses` what it says of a job it killed itself.

    Where a guard, a host or a job's own processes are killed, the job may have failed, if that is said in words.
    """

    what: str
    whom: str
    boundary: str
    excuses: bool = False


@dataclass
class Trial:
    """One job or gate that a fault befell, and how it came out: each is a sentence, empty where nothing is wrong."""

    key: str
    fault: Fault
    where: str
    lost: str = ""
    doubled: str = ""
    wrong: str = ""


@dataclass
class Part:
    """What one part of the trials came to. `failure`: why it did not get to its end; `left_out`: why not tried."""

    name: str
    trials: list[Trial] = field(default_factory=list)
    chain_faults: list[str] = field(default_factory=list)
    chains: int = 0
    failure: str = ""
    left_out: str = ""
    seconds: float = 0.0


@dataclass
class Line:
    """A line of the table: how often something was tried, and what became of it."""

    trials: int = 0
    lost: int = 0
    doubled: int = 0
    wrong: int = 0

    def add(self, trial: Trial) -> None:
        self.trials += 1
        self.lost += bool(trial.lost)
        self.doubled += bool(trial.doubled)
        self.wrong += bool(trial.wrong)


def lines_of(trials: list[Trial]) -> dict[tuple[str, str, str, str], Line]:
    """(where, whom, what, boundary) -> what became of those, in the order in which they were first tried."""
    lines: dict[tuple[str, str, str, str], Line] = {}
    for trial in trials:
        key = (trial.where, trial.fault.whom, trial.fault.what, trial.fault.boundary)
        lines.setdefault(key, Line()).add(trial)
    return lines


def total(trials: list[Trial]) -> Line:
    line = Line()
    for trial in trials:
        line.add(trial)
    return line
