"""Says of each trial whether its job was lost, done twice, or told wrongly.

What happened is known from the scripts themselves: each appends its token to a file as its first act, and its token
and exit code as its last. What Conductor says of it is known from its rows and events. The two must agree.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from faults.trials import Trial

ENDS = {
    "job.succeed", "job.fail", "job.cancel", "job.time_out", "job.run_out_of_memory", "job.fail_node", "job.preempt",
}  # fmt: skip


@dataclass
class Tally:
    """What scripts said of themselves: token -> how often one began, and with which codes it ended."""

    began: Counter[str] = field(default_factory=Counter)
    ended: dict[str, list[int]] = field(default_factory=dict)


def read_tally(folder: Path) -> Tally:
    """The files `began` (a token a line) and `ended` (token and exit code)."""
    tally = Tally()
    for line in _lines(folder / "began"):
        tally.began[line.strip()] += 1
    for line in _lines(folder / "ended"):
        token, _, code = line.strip().partition(" ")
        tally.ended.setdefault(token, []).append(int(code))
    return tally


def judge_job(trial: Trial, row: Mapping[str, Any] | None, tally: Tally, ends: int) -> None:
    """Write into a trial what is wrong with its job. `ends` is how many events say that it has ended."""
    began, codes = tally.began[trial.key], tally.ended.get(trial.key, [])
    trial.lost = _lost(row, began)
    trial.doubled = _doubled(began, len(codes), ends)
    trial.wrong = "" if row is None or not row["ended_at"] else _wrong(trial, row, codes)


def _lost(row: Mapping[str, Any] | None, began: int) -> str:
    if row is None:
        return "its row is gone"
    if not row["ended_at"]:
        return f"it is {row['state']} still, after all was made well again: {row['reason']}"
    if row["state"] == "succeeded" and not began:
        return "it is said to have succeeded, and never ran"
    if not row["final_handled"]:
        return "what follows its end was never done"
    return ""


def _doubled(began: int, ended: int, ends: int) -> str:
    if began > 1 or ended > 1:
        return f"it began {began} times and ended {ended} times"
    return f"{ends} events say that it has ended" if ends > 1 else ""


def _wrong(trial: Trial, row: Mapping[str, Any], codes: list[int]) -> str:
    said = f"it is said to have {row['state']} with code {row['exit_code']} ({row['reason']})"
    if row["state"] == "succeeded":
        return "" if codes == [0] else f"{said}, and its script said {codes or 'nothing'}"
    if row["state"] == "failed" and codes and codes[0] and row["exit_code"] == codes[0]:
        return ""
    if row["state"] in ("failed", "node_failed") and trial.fault.excuses and row["reason"]:
        return ""
    return f"{said}, and its script said {codes or 'nothing'}"


def count_ends(events: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """Subject's uuid in 32 digits -> how many events say that it has ended."""
    return Counter(plain(event["subject_uuid"]) for event in events if event["kind"] in ENDS)


def plain(uuid: object) -> str:
    """A uuid as 32 digits, whichever way a database gives it."""
    return str(uuid).replace("-", "")


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []
