"""Selections of runs and phases, as adjectives."""

from typing import TYPE_CHECKING

from django.db import models

from runs.states import PASSED, RunState

if TYPE_CHECKING:
    from runs.models import Phase, Run


class RunQuerySet(models.QuerySet["Run"]):
    def current(self) -> "RunQuerySet":
        """Not archived."""
        return self.filter(archived_at=None)

    def active(self) -> "RunQuerySet":
        """Running or paused."""
        return self.current().filter(state__in=[RunState.RUNNING, RunState.PAUSED])


class PhaseQuerySet(models.QuerySet["Phase"]):
    def unpassed(self) -> "PhaseQuerySet":
        """Neither done nor skipped."""
        return self.exclude(state__in=PASSED)
