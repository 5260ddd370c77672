"""Selections of gates, as adjectives."""

from typing import Any

from django.db import models
from django.utils import timezone

from gates.states import GateState
from record.models import Identified


class GateQuerySet(models.QuerySet[Any]):
    def waiting(self) -> "GateQuerySet":
        """Open, the longest waiting first."""
        return self.filter(state=GateState.OPEN).order_by("opened_at", "id")

    def overdue(self) -> "GateQuerySet":
        """Open past their deadline."""
        return self.filter(state=GateState.OPEN, due_at__lte=timezone.now())

    def to_escalate(self) -> "GateQuerySet":
        """Open past the time at which others are to hear of it, and not escalated yet."""
        return self.filter(state=GateState.OPEN, escalates_at__lte=timezone.now(), escalated_at=None)

    def to_apply(self) -> "GateQuerySet":
        """Decided, with the decision's effects still to be written back; failed ones once their pause is over, begun
        ones once whoever began has had its time."""
        begun = models.Q(state__in=[GateState.APPLYING, GateState.APPLY_FAILED], apply_after__lte=timezone.now())
        return self.filter(models.Q(state=GateState.DECIDED) | begun).order_by("id")

    def of(self, subject: Identified) -> "GateQuerySet":
        """The gates of one subject, newest iteration first."""
        return self.filter(subject_uuid=subject.uuid).order_by("key", "-iteration")
