"""Forgetting the mechanical log after a while. What people were told of, and what stands by a decision, is kept."""

from datetime import datetime

from django.db import transaction

from record.kinds import KINDS
from record.models import Event, KeptAnswer

ROWS_AT_ONCE = 1000


def prune_events(*, before: datetime, dry_run: bool = False) -> int:
    """Remove events from before that time (aware) that are neither notable nor a decision's; how many.

    Some effects are written once because their event, which names the decision, is there: those stay. The table is
    walked by key in short transactions, from its beginning up to the first stretch that is wholly younger.
    """
    notable = {kind for kind, told in KINDS.items() if told.notable}
    count, last = 0, 0
    while batch := list(
        Event.objects.filter(pk__gt=last).order_by("pk").values_list("pk", "at", "kind", "decision")[:ROWS_AT_ONCE]
    ):
        if all(at >= before for _, at, _, _ in batch):
            break
        last = batch[-1][0]
        old = [pk for pk, at, kind, decision in batch if at < before and kind not in notable and decision is None]
        count += len(old)
        if old and not dry_run:
            with transaction.atomic():
                Event.objects.filter(pk__in=old).delete()
    return count


def forget_answers() -> int:
    """Delete the answers to commands with a key that are given again no longer; how many."""
    return KeptAnswer.objects.expired().delete()[0]
