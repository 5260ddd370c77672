"""Selections of runs and phases, as adjectives."""

from typing import Any

from django.db import models

from runs.states import PASSED, RunState


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
