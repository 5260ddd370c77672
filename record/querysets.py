"""Selections of decisions and events, in the words of the pages that list them."""

from typing import TYPE_CHECKING, Any, NoReturn, Self
from uuid import UUID

from django.db import models
from django.db.models import Q

from record.access import Actor, lab_ids
from record.errors import NotAllowed

if TYPE_CHECKING:
    from record.models import Decision, Identified


class AppendOnlyQuerySet(models.QuerySet[Any]):
    """Rows can be read and added, never changed or removed."""

    def _refuse(self, *args: object, **kwargs: object) -> NoReturn:
        raise NotAllowed("The record is append-only: add a decision that supersedes the one you want to correct.")

    update = delete = bulk_update = bulk_create = update_or_create = _refuse


class DecisionQuerySet(AppendOnlyQuerySet):
    def seen_by(self, user: Actor) -> Self:
        """Those of labs that the user may see."""
        return self.filter(lab__in=lab_ids(user))

    def for_subject(self, subject: "Identified") -> Self:
        """What was decided about one thing, oldest first."""
        return self.filter(subject_uuid=subject.uuid).order_by("number")

    def about(self, uuid: UUID) -> Self:
        """What was decided about a thing or about what is part of it (of a run: its phases, series and gates)."""
        return self.filter(Q(subject_uuid=uuid) | Q(root_uuid=uuid))

    def with_verdict(self, verdict: str) -> Self:
        """Those with that verdict."""
        return self.filter(verdict=verdict)

    def by(self, who: str) -> Self:
        """Those of a username, or of a name as it was then (a person's or a policy's)."""
        return self.filter(Q(actor__username=who) | Q(actor_name__iexact=who))

    def mentioning(self, text: str) -> Self:
        """Those with `text` in their reason or their subject's label, in either case (on SQLite: of a to z)."""
        return self.filter(Q(statement__reason__icontains=text) | Q(subject_label__icontains=text))

    def in_full(self) -> Self:
        """With all that a list shows, in one query."""
        return self.select_related("lab", "actor", "statement", "statement__struck_by", "supersedes")


class StatementQuerySet(AppendOnlyQuerySet):
    def strike(self, tombstone: "Decision") -> int:
        """Empty those that are not struck yet, in the name of `tombstone`; how many."""
        return models.QuerySet.update(self.filter(struck_by=None), reason="", answers={}, salt="", struck_by=tombstone)


class EventQuerySet(models.QuerySet[Any]):
    def seen_by(self, user: Actor) -> Self:
        """Those of labs that the user may see."""
        return self.filter(lab__in=lab_ids(user))

    def about(self, *subjects: "Identified") -> Self:
        """Events about any of these things, newest first."""
        return self.filter(subject_uuid__in=[subject.uuid for subject in subjects]).order_by("-id")

    def part_of(self, root: UUID) -> Self:
        """Events about a run (or programme, walk) and all that is part of it, newest first."""
        return self.filter(root_uuid=root).order_by("-id")
