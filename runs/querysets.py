"""Selections of runs and phases, as adjectives."""

from typing import Any

from django.db import models

from runs.states import PASSED, PhaseState, RunState


class RunQuerySet(models.QuerySet[Any]):
    def current(self) -> "RunQuerySet":
        """Not archived."""
        return self.filter(archived_at=None)

    def active(self) -> "RunQuerySet":
        """Running or paused."""
        return self.current().filter(state__in=[RunState.RUNNING, RunState.PAUSED])


class PhaseQuerySet(models.QuerySet[Any]):
    def unpassed(self) -> "PhaseQuerySet":
        """Neither done nor skipped."""
        return self.exclude(state__in=PASSED)

    def startable(self) -> "PhaseQuerySet":
        """Ready, in runs that are running and not archived; the longest-standing run first."""
        return self.filter(state=PhaseState.READY, run__state=RunState.RUNNING, run__archived_at=None).order_by(
            "run_id", "position", "id"
        )

    def in_work(self) -> "PhaseQuerySet":
        """Running, in runs that are not archived."""
        return self.filter(state=PhaseState.RUNNING, run__archived_at=None)
