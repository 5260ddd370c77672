"""How far a phase is, and how long it may still take."""

from dataclasses import dataclass
from datetime import timedelta
from statistics import median

from django.db.models import F, Q
from django.utils import timezone

from jobs.shells import shell_for
from record.logkeys import about
from runs.models import Phase
from runs.pipeline.spec import spec_of
from runs.querysets import PhaseQuerySet
from runs.services.board import series_names
from runs.services.looking import completion, look_for
from runs.services.verify import count_done
from runs.states import PhaseState

LOOK_EVERY_S = 3
EARLIER_ATTEMPTS = 20


@dataclass(frozen=True)
class Estimate:
    """Times in seconds. `remaining_s` is None where there is nothing to judge by; `from_attempts` says by how many."""

    elapsed_s: float
    remaining_s: float | None
    from_attempts: int


def estimate(phase: Phase) -> Estimate:
    """How long the phase has run, and what is left: by its own pace, else by earlier attempts at the same phase.

    Earlier attempts are those of other lanes and runs of the same pipeline that did something; their median time an
    item is taken for the items that are left.
    """
    elapsed_s = _elapsed_s(phase)
    if phase.state != PhaseState.RUNNING:
        return Estimate(elapsed_s, None, 0)
    rates = _earlier_rates_s(phase)
    left = max(phase.items_total - phase.items_done, 0)
    if rates and phase.items_total:
        expected_s = median(rates) * max(phase.items_total - phase.items_at_start, 1)
        own_pace = _own_remaining_s(phase, elapsed_s, left)
        remaining_s = own_pace if own_pace is not None else max(expected_s - elapsed_s, 0.0)
        return Estimate(elapsed_s, remaining_s, len(rates))
    return Estimate(elapsed_s, _own_remaining_s(phase, elapsed_s, left), 0)


def to_look_at(phases: PhaseQuerySet) -> list[int]:
    """Keys of those of the (running) phases whose progress has not been read for a few seconds."""
    before = timezone.now() - timedelta(seconds=LOOK_EVERY_S)
    due = phases.filter(Q(looked_at=None) | Q(looked_at__lt=before))
    return list(due.values_list("pk", flat=True))


def look_at_progress(phase_id: int) -> bool:
    """Read a running phase's progress from disk; whether it has changed."""
    phase = Phase.objects.with_run().get(pk=phase_id)
    with about(run=phase.run.uuid, target=phase.run.target.name):
        return _look_at(phase)


def _look_at(phase: Phase) -> bool:
    look = look_for(phase, spec_of(phase.run.snapshot), series_names(phase.run, phase.species).active)
    done, total = count_done(shell_for(phase.run.target), look)
    changed = (done, total) != (phase.items_done, phase.items_total)
    # Conditional: the phase's end may have been recorded meanwhile, and knows better.
    at_work = Phase.objects.at_work().filter(pk=phase.pk, attempt=phase.attempt)
    at_work.update(
        looked_at=timezone.now(),
        items_done=done,
        items_total=total,
        completion=completion(done, total),
    )
    return changed


def _elapsed_s(phase: Phase) -> float:
    if phase.started_at is None:
        return 0.0
    return ((phase.ended_at or timezone.now()) - phase.started_at).total_seconds()


def _own_remaining_s(phase: Phase, elapsed_s: float, left: int) -> float | None:
    made = phase.items_done - phase.items_at_start
    return elapsed_s / made * left if made > 0 else None


def _earlier_rates_s(phase: Phase) -> list[float]:
    """Seconds an item of earlier attempts at this phase in the same pipeline, the latest ones."""
    earlier = (
        Phase.objects.filter(key=phase.key, run__snapshot__pipeline=phase.run.snapshot.pipeline_id)
        .filter(items_done__gt=F("items_at_start"), ended_at__isnull=False, started_at__isnull=False)
        .exclude(pk=phase.pk)
        .exclude(state=PhaseState.FAILED)
        .order_by("-ended_at")
        .values_list("started_at", "ended_at", "items_done", "items_at_start")[:EARLIER_ATTEMPTS]
    )
    return [
        (ended - started).total_seconds() / (done - before)
        for started, ended, done, before in earlier
        if started is not None and ended is not None
    ]
