"""A job may be claimed in the very transaction that plans it, where this process runs its target's jobs.

It saves a transaction and a turn of the loop between what is planned and what runs.
"""

from functools import partial
from typing import Protocol

from django.db import transaction

from jobs.custody import claim_planned
from jobs.models import Job, Target, TargetKind


class Taker(Protocol):
    """Who runs the jobs of this host's local targets: see jobs.hands.Hands."""

    host: str
    holder: str

    def take(self, job: Job) -> None:
        """Start a job that was claimed."""


_here: list[Taker] = []  # set where this process is `conduct`


def take_here(taker: Taker | None) -> None:
    """Have jobs that this very process plans claimed for `taker` at once; None undoes it."""
    _here[:] = [taker] if taker else []


def claim_at_once(job: Job) -> None:
    """Claim a job that the caller's transaction has planned, if it is ours to run and may run now.

    It is started once that transaction is committed. In any other case it is claimed in its turn, as all jobs are.
    """
    for taker in _here:
        if _is_run_by(taker, job.target) and claim_planned(job, holder=taker.holder):
            transaction.on_commit(partial(taker.take, job))


def is_run_here(target: Target) -> bool:
    """Whether this very process runs the target's jobs."""
    return any(_is_run_by(taker, target) for taker in _here)


def _is_run_by(taker: Taker, target: Target) -> bool:
    return target.kind == TargetKind.LOCAL and target.host == taker.host
