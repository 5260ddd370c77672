"""Selections of decisions and events; whose they are is asked of record.access."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NoReturn, Self

from django.conf import settings
from django.db import models
from django.utils import timezone

from record.errors import NotAllowed

if TYPE_CHECKING:
    from record.models import Decision, Identified


class AppendOnlyQuerySet(models.QuerySet[Any]):
    """Rows can be read and added, never changed or removed."""

    def _refuse(self, *args: object, **kwargs: object) -> NoReturn:
        raise NotAllowed("The record is append-only: add a decision that supersedes the one you want to correct.")

    update = delete = bulk_update = bulk_create = update_or_create = _refuse


class DecisionQuerySet(AppendOnlyQuerySet):
    def in_full(self) -> Self:
        """With all that verifying and exporting need, in one query."""
        return self.select_related("lab", "actor", "statement", "statement__struck_by", "supersedes")


class StatementQuerySet(AppendOnlyQuerySet):
    def strike(self, tombstone: "Decision") -> int:
        """Empty those that are not struck yet, in the name of `tombstone`; how many."""
        return models.QuerySet.update(self.filter(struck_by=None), reason="", answers={}, salt="", struck_by=tombstone)


class EventQuerySet(models.QuerySet[Any]):
    def about(self, *subjects: "Identified") -> Self:
        """Events about any of these things, newest first."""
        return self.filter(subject_uuid__in=[subject.uuid for subject in subjects]).order_by("-id")


class KeptAnswerQuerySet(models.QuerySet[Any]):
    def kept(self) -> "KeptAnswerQuerySet":
        """Young enough to be given again."""
        return self.filter(at__gte=_oldest_kept())

    def expired(self) -> "KeptAnswerQuerySet":
        """Too old to be given again."""
        return self.filter(at__lt=_oldest_kept())


def _oldest_kept() -> datetime:
    return timezone.now() - timedelta(days=settings.REPEATS_KEPT_DAYS)
