"""Selections of jobs, as adjectives."""

from typing import Any

from django.db import models

from jobs.states import JobState
from record.models import Identified


class JobQuerySet(models.QuerySet[Any]):
    def live(self) -> "JobQuerySet":
        """Not ended yet, planned ones included."""
        return self.filter(ended_at=None)

    def unhandled(self) -> "JobQuerySet":
        """Ended, and what follows their end has not been done."""
        return self.filter(final_handled=False, ended_at__isnull=False)

    def within_reach(self, host: str) -> "JobQuerySet":
        """Those whose files `host` can see: all but those on local targets of other hosts."""
        return self.exclude(~models.Q(target__host=host), target__kind="local")

    def planned(self) -> "JobQuerySet":
        """Waiting to be submitted and not held back, oldest first."""
        return self.filter(ended_at=None, state=JobState.PLANNED, held=False).order_by("id")

    def away(self) -> "JobQuerySet":
        """Something of them may be out there: handed over or being handed over, and not known to have ended."""
        return self.filter(ended_at=None).exclude(state=JobState.PLANNED)

    def about(self, subject: Identified) -> "JobQuerySet":
        """Those for one phase, gate or other subject, newest first."""
        return self.filter(subject_uuid=subject.uuid).order_by("-id")
