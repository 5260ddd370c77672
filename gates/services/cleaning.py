"""Clearing away evidence on which nothing was decided: of gates that ended long ago without a decision, and of none.

Never touched is what a decision refers to, by whatever gate it was shown, and the evidence of a gate that has not ended
or whose next iteration has not.
"""

from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet, Sum
from django.utils import timezone

from gates import store
from gates.models import Evidence, Gate
from gates.services.locking import lock_gate
from gates.states import ENDED
from record.models import Decision
from record.services import record_event

ROWS_AT_ONCE = 500


@dataclass
class Cleared:
    """What was (or would be) removed: the gates concerned, their pieces, and files of the store with their bytes."""

    gates: int = 0
    pieces: int = 0
    files: int = 0
    size_bytes: int = 0


def clean_evidence(*, before: datetime, dry_run: bool = False) -> Cleared:
    """Clear away what was shown at gates that ended before that time (aware) undecided, and files that belong to none.

    A gate that loses its evidence says so in its notes and its log. A dry run only tells what would be removed.
    """
    cleared = Cleared()
    undecided = list(undecided_gates(before).values_list("pk", flat=True))
    if not dry_run:
        store.forget_incoming(before)
    with store.locked(shared=False):
        for gate_id in undecided:
            pieces = _pieces_of(gate_id) if dry_run else _clear_gate(gate_id, before)
            cleared.pieces += pieces
            cleared.gates += bool(pieces)
        for digest in sorted(_unneeded(before, undecided)):
            size = store.size_of(digest) if dry_run else store.discard(digest, before=before)
            cleared.size_bytes += size
            cleared.files += bool(size)
        if not dry_run:
            store.drop_scratch(before)
    return cleared


def undecided_gates(before: datetime) -> QuerySet[Gate]:
    """Gates that ended before then, with evidence that no decision was bound to, whose next iteration has ended.

    Withdrawing a gate and asking it again are decisions too, but not on its evidence.
    """
    going_on = Gate.objects.exclude(state__in=ENDED).exclude(previous=None).values("previous")
    bound = Decision.objects.filter(gate_uuid=OuterRef("uuid")).exclude(evidence={})
    shown = Evidence.objects.filter(gate=OuterRef("pk"))
    ended = Gate.objects.filter(Exists(shown), ~Exists(bound), state__in=ENDED, ended_at__lt=before, decision=None)
    return ended.exclude(pk__in=going_on).order_by("pk")


def _pieces_of(gate_id: int) -> int:
    return Evidence.objects.filter(gate_id=gate_id).count()


def _clear_gate(gate_id: int, before: datetime) -> int:
    """Remove a gate's rows of evidence, if it may still be so; how many there were."""
    with transaction.atomic():
        gate = lock_gate(gate_id)
        if not undecided_gates(before).filter(pk=gate_id).exists():
            return 0
        size = gate.evidence.aggregate(size=Sum("size_bytes"))["size"]
        count, _ = gate.evidence.all().delete()
        note = (
            f"Its evidence ({count} pieces, {size / 2**20:.1f} MiB) was cleared away on {timezone.now():%Y-%m-%d}: "
            "nothing had been decided on it."
        )
        Gate.objects.filter(pk=gate_id).update(notes=[*gate.notes, note])
        message = f"{gate.title}, {gate.context}: {note}"
        record_event(lab_id=gate.lab_id, kind="gate.clean", subject=gate.subject(), message=message)
    return count


def _unneeded(before: datetime, undecided: list[int]) -> set[str]:
    """Digests of files put before then to which no decision refers, nor evidence other than of `undecided` gates."""
    left = set(store.put_before(before))
    shown = Evidence.objects.exclude(gate__in=undecided).order_by().values_list("sha256", flat=True)
    left.difference_update(shown.iterator(ROWS_AT_ONCE))
    for evidence in Decision.objects.order_by().values_list("evidence", flat=True).iterator(ROWS_AT_ONCE):
        left.difference_update(evidence.get("items", {}).values())
    return left
