"""Selections of runs and phases, as adjectives."""

from typing import Any

from django.db import models

from jobs.hosts import this_host
from runs.states import PhaseState, RunState


class RunQuerySet(models.QuerySet[Any]):
    def current(self) -> "RunQuerySet":
        """Not archived."""
        return self.filter(archived_at=None)

    def active(self) -> "RunQuerySet":
        """Running or paused."""
        return self.current().filter(state__in=[RunState.RUNNING, RunState.PAUSED])


class PreflightQuerySet(models.QuerySet[Any]):
    def made(self) -> "PreflightQuerySet":
        """Those that have been made, the last one first."""
        return self.exclude(at=None).order_by("-id")

    def planned(self) -> "PreflightQuerySet":
        """Those that are still to be made."""
        return self.filter(at=None)

    def due(self, now: Any, host: Any = None) -> "PreflightQuerySet":
        """To be begun now, in runs that are running, within reach of `host` (or this one)."""
        elsewhere = models.Q(run__target__kind="local") & ~models.Q(run__target__host=host or this_host())
        runs = self.planned().filter(run__state=RunState.RUNNING, run__archived_at=None).exclude(elsewhere)
        return runs.filter(due_at__lte=now).order_by("id")


class SpeciesQuerySet(models.QuerySet[Any]):
    def taking_part(self) -> "SpeciesQuerySet":
        """Not dropped from their run."""
        return self.filter(dropped_by=None)


class PhaseQuerySet(models.QuerySet[Any]):
    def startable(self, host: Any = None) -> "PhaseQuerySet":
        """Ready, in runs that are running and not archived, within reach of `host`; the oldest run first."""
        ready = self.filter(state=PhaseState.READY, run__state=RunState.RUNNING, run__archived_at=None)
        return ready.within_reach(host).order_by("run_id", "position", "id")

    def of_board(self, run: Any) -> "PhaseQuerySet":
        """A run's phases in order, with their species, and without what is long and what nothing is decided by."""
        return self.filter(run=run).select_related("species").order_by("position", "id").defer("outputs", "files")

    def ahead(self) -> "PhaseQuerySet":
        """Not done yet, or to be run again; skipped ones too, which stand for what they need (see Board.is_free)."""
        return self.filter(~models.Q(state=PhaseState.DONE) | models.Q(again=True))

    def at_hand(self) -> "PhaseQuerySet":
        """Those ahead but for the pending ones that need another pending one: these can't go on before that has.

        What joins the lanes may go on without one of them, so that only shared phases can keep it off.
        """
        needs = self.model.needs.through.objects.filter(
            from_phase=models.OuterRef("pk"), to_phase__state=PhaseState.PENDING
        )
        waits = models.Exists(needs.filter(to_phase__species=None)) | models.Q(
            models.Exists(needs), species__isnull=False
        )
        return self.ahead().exclude(waits, state=PhaseState.PENDING)

    def in_work(self) -> "PhaseQuerySet":
        """Waiting for the end of a job, in runs that are not archived."""
        return self.at_work().filter(run__archived_at=None).within_reach()

    def awaiting_end(self) -> "PhaseQuerySet":
        """Their job has left the queue, and nobody knows how it ended."""
        return self.filter(state=PhaseState.VERIFYING, ended_at=None)

    def at_work(self) -> "PhaseQuerySet":
        """Waiting for the end of a job: running, or resting because nobody knows how it ended."""
        return self.filter(state=PhaseState.RUNNING) | self.awaiting_end()

    def here(self) -> "PhaseQuerySet":
        """Of runs on this machine itself: what lies at a cluster is dealt with in the cluster's turn."""
        return self.filter(run__target__kind="local")

    def with_run(self) -> "PhaseQuerySet":
        """With their species, runs, and those runs' targets and snapshots (without the long spec: see spec_of)."""
        return self.select_related("run__snapshot", "run__target", "species").defer("run__snapshot__spec")

    def within_reach(self, host: Any = None) -> "PhaseQuerySet":
        """Of runs whose folder `host` (or this one) can reach: a local target's lies on its own host only."""
        elsewhere = models.Q(run__target__kind="local") & ~models.Q(run__target__host=host or this_host())
        return self.exclude(elsewhere)
