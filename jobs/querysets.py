"""Selections of jobs, as adjectives."""

from typing import Any

from django.db import models

from jobs.states import FINAL, JobState
from record.models import Identified


class JobQuerySet(models.QuerySet[Any]):
    def live(self) -> "JobQuerySet":
        """Not ended yet, planned ones included."""
        return self.exclude(state__in=FINAL)

    def unhandled(self) -> "JobQuerySet":
        """Ended, and what follows their end has not been done."""
        return self.filter(final_handled=False, state__in=FINAL)

    def planned(self) -> "JobQuerySet":
        """Waiting to be submitted, oldest first."""
        return self.filter(state=JobState.PLANNED).order_by("id")

    def about(self, subject: Identified) -> "JobQuerySet":
        """Those for one phase, gate or other subject, newest first."""
        return self.filter(subject_uuid=subject.uuid).order_by("-id")
