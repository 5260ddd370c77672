"""What SLURM's states mean. One table: every state and flag of slurm.h up to 25.05.

Flags (COMPLETING, REQUEUED ...) may stand in a state's place in what squeue and sacct print.
"""

from dataclasses import dataclass
from enum import StrEnum


class Standing(StrEnum):
    """How far a job is, by the scheduler's word."""

    WAITING = "waiting"
    RUNNING = "running"
    ENDED = "ended"
    UNSETTLED = "unsettled"  # neither can be concluded: nothing is changed because of it


@dataclass(frozen=True)
class Meaning:
    """`event` is one of our state table's where the job has ended. A provisional end may still change."""

    standing: Standing
    event: str = ""
    words: str = ""
    provisional: bool = False
    known: bool = True


def _waiting(words: str) -> Meaning:
    return Meaning(Standing.WAITING, words=words)


def _running(words: str) -> Meaning:
    return Meaning(Standing.RUNNING, words=words)


def _ended(event: str, words: str, *, provisional: bool = False) -> Meaning:
    return Meaning(Standing.ENDED, event, words, provisional)


def _unsettled(words: str) -> Meaning:
    return Meaning(Standing.UNSETTLED, words=words)


STATES: dict[str, Meaning] = {
    # States proper
    "PENDING": _waiting("It waits in the queue."),
    "RUNNING": _running("It runs."),
    "SUSPENDED": _running("It is suspended: it keeps its place and its time stands still."),
    "COMPLETED": _ended("succeed", ""),
    "CANCELLED": _ended("cancel", "It was cancelled at the cluster."),
    "FAILED": _ended("fail", "It ended with an error."),
    "TIMEOUT": _ended("time_out", "It ran into its time limit."),
    "DEADLINE": _ended("time_out", "Its deadline passed."),
    "OUT_OF_MEMORY": _ended("run_out_of_memory", "It used more memory than it had asked for."),
    "NODE_FAIL": _ended("fail_node", "A node on which it ran failed.", provisional=True),
    "BOOT_FAIL": _ended("fail_node", "A node on which it was to run did not boot.", provisional=True),
    "PREEMPTED": _ended("preempt", "It had to make room for another job.", provisional=True),
    # Flags
    "CONFIGURING": _waiting("Its nodes are being made ready."),
    "COMPLETING": _running("It is ending: the cluster cleans up after it."),
    "STAGE_OUT": _running("It is ending: its results are being staged out."),
    "STOPPED": _running("It was stopped by a signal and keeps its nodes."),
    "SIGNALING": _running("A signal is on its way to it."),
    "RESIZING": _running("It is changing its size."),
    "POWER_UP_NODE": _waiting("Its nodes are being powered up."),
    "UPDATE_DB": _running("The cluster writes its accounts."),
    "EXPEDITING": _waiting("It was put at the head of the queue."),
    "REQUEUED": _waiting("It was put back into the queue."),
    "REQUEUE_FED": _waiting("It was put back into the queue of another cluster of the federation."),
    "REQUEUE_HOLD": _waiting(
        "It was put back into the queue and is held there: somebody has to release it (scontrol)."
    ),
    "SPECIAL_EXIT": _waiting("It was put back and is held as a special case: somebody has to release it (scontrol)."),
    "RESV_DEL_HOLD": _waiting("It is held since its reservation was deleted: somebody has to release it (scontrol)."),
    "REVOKED": _unsettled("Another cluster of the federation has taken it."),
    "LAUNCH_FAILED": _unsettled("It could not be launched on its nodes."),
}


def meaning_of(state: str) -> Meaning:
    """What a state as SLURM prints it means (`CANCELLED by 1000`, `CANCELLED+`: the first word counts).

    One that is not in the table is unsettled and not `known`: it is shown, somebody is told, and nothing is concluded.
    """
    word = (state.split() or [""])[0].rstrip("+").upper()
    if word in STATES:
        return STATES[word]
    return Meaning(
        Standing.UNSETTLED, words=f"SLURM says {state!r}, which Conductor does not know: it is left as it was.",
        known=False,
    )  # fmt: skip
