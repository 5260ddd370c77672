"""Selections of gates, as adjectives."""

from typing import Any

from django.db import models
from django.utils import timezone

from gates.states import GateState
from record.models import Identified

_TO_APPLY = [GateState.DECIDED, GateState.APPLYING, GateState.APPLY_FAILED]


class GateQuerySet(models.QuerySet[Any]):
    def in_progress(self) -> "GateQuerySet":
        """Not ended yet. What is asked each second begins with this: the index of these rows leaves out all others."""
        return self.filter(ended_at=None)

    def waiting(self) -> "GateQuerySet":
        """Open, the longest waiting first."""
        return self.in_progress().filter(state=GateState.OPEN).order_by("opened_at", "id")

    def overdue(self) -> "GateQuerySet":
        """Open past their deadline."""
        return self.in_progress().filter(state=GateState.OPEN, due_at__lte=timezone.now())

    def to_escalate(self) -> "GateQuerySet":
        """Open past the time at which others are to hear of it, and not escalated yet."""
        open_ones = self.in_progress().filter(state=GateState.OPEN, escalated_at=None)
        return open_ones.filter(escalates_at__lte=timezone.now())

    def to_apply(self) -> "GateQuerySet":
        """Decided, with the decision's effects still to be written back; failed ones once their pause is over, begun
        ones once whoever began has had its time."""
        wanted = self.in_progress().filter(state__in=_TO_APPLY)
        due = models.Q(state=GateState.DECIDED) | models.Q(apply_after__lte=timezone.now())
        return wanted.filter(due).order_by("id")

    def of(self, subject: Identified) -> "GateQuerySet":
        """The gates of one subject, newest iteration first."""
        return self.filter(subject_uuid=subject.uuid).order_by("key", "-iteration")
