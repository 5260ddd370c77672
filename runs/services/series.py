"""A run's tilt series: found on disk, left out, brought back. An exclusion sticks, and holds for every later phase."""

from collections.abc import Iterable

from django.db import transaction

from record.access import Ability, require
from record.errors import InvalidTransition
from record.models import Decision, Event
from record.services import Author, Ruling, record_decision, record_event
from runs.models import LeftOut, Phase, Run, Species, TiltSeries
from runs.services.asking import mark_stale
from runs.services.board import Board, lock_run, refuse_archived
from runs.states import PhaseState, RunState


def add_series(run: Run, names: Iterable[str]) -> list[str]:
    """Add the tilt series that the run doesn't know yet; their names. In the caller's transaction, run locked."""
    known = set(TiltSeries.objects.filter(run=run).values_list("name", flat=True))
    new = sorted(set(names) - known)
    if new:
        TiltSeries.objects.bulk_create([TiltSeries(run=run, name=name) for name in new])
        shown = ", ".join(new[:20]) + (" ..." if len(new) > 20 else "")
        record_event(
            lab_id=run.lab_id,
            kind="series.discover",
            subject=run.subject(),
            message=f"{run.name}: {len(new)} tilt series found: {shown}",
            data={"names": new},
        )
    return new


def exclude_series(
    *,
    series: TiltSeries,
    author: Author,
    reason: str,
    decision: Decision | None = None,
    species: Species | None = None,
) -> Decision:
    """Leave a tilt series out from here on; the decision that did it (the one given, or a new one).

    For the whole run, or for one species' lane alone. Done phases that gather all series into one result become stale.
    One that is excluded already stays as it is.
    """
    with transaction.atomic():
        series, board = _lock(series, author, decision)
        if (earlier := _excluded_by(series, species)) is not None:
            return earlier
        if decision is not None and _was_done(series, "series.exclude", decision, species):
            return decision
        decision = decision or _decide(series, author, "exclude", reason)
        if species is None:
            TiltSeries.objects.filter(pk=series.pk).update(excluded_by=decision)
        else:
            LeftOut.objects.create(series=series, species=species, decision=decision)
        _say(series, "series.exclude", author, reason, decision, species)
        gathered = [p for p in _done_phases(board, species) if board.spec_for(p).gathers]
        mark_stale(gathered, decision, f"{series.name} has been excluded since")
    return decision


def include_series(
    *,
    series: TiltSeries,
    author: Author,
    reason: str,
    decision: Decision | None = None,
    species: Species | None = None,
) -> Decision | None:
    """Bring an excluded tilt series back; the decision, or None where it was not excluded.

    What was left out for one species alone is brought back for that species, and what the run excludes for the run.
    Done phases that ran without it become stale: run them again, keeping outputs, to have it caught up.
    """
    with transaction.atomic():
        series, board = _lock(series, author, decision)
        earlier = _excluded_by(series, species)
        if earlier is None or (decision is not None and _was_done(series, "series.include", decision, species)):
            return None
        decision = decision or _decide(series, author, "include", reason)
        if species is None:
            TiltSeries.objects.filter(pk=series.pk).update(excluded_by=None)
        else:
            LeftOut.objects.filter(series=series, species=species).delete()
        _say(series, "series.include", author, reason, decision, species)
        without = [p for p in _done_phases(board, species) if p.started_at and p.started_at > earlier.at]
        concerned = [p for p in without if board.spec_for(p).per_series or board.spec_for(p).gathers]
        mark_stale(concerned, decision, f"{series.name} has been brought back since")
    return decision


def judge_series(*, series: TiltSeries, verdict: str, note: str) -> None:
    """Keep what a person said of a tilt series: good, suspect or bad, and a note."""
    TiltSeries.objects.filter(pk=series.pk).update(verdict=verdict[:10], note=note[:500])


def _lock(series: TiltSeries, author: Author, decision: Decision | None) -> tuple[TiltSeries, Board]:
    run = lock_run(series.run_id)
    refuse_archived(run)
    if run.state == RunState.CANCELLED:
        raise InvalidTransition(f"Run {run.name} is cancelled: nothing more is done with its tilt series.")
    if decision is None and author.user is not None:
        require(author.user, Ability.DECIDE, run.lab_id)
    return TiltSeries.objects.select_related("run", "excluded_by").get(pk=series.pk), Board.load(run)


def _excluded_by(series: TiltSeries, species: Species | None) -> Decision | None:
    """The decision that excluded it for the run, or for this species alone."""
    if species is None:
        return series.excluded_by
    row = LeftOut.objects.select_related("decision").filter(series=series, species=species).first()
    return row.decision if row else None


def _done_phases(board: Board, species: Species | None) -> list[Phase]:
    """Done phases of the run; for one species those of its lane and what joins it to others."""
    lane = {phase.pk for phase in board.phases if species is None or phase.species_id == species.pk}
    joined = {each.pk for phase in board.phases if phase.pk in lane for each in board.dependents(phase)} - lane
    mine = {each.pk for each in board.phases if each.pk in joined and each.species_id is None} | lane
    return [phase for phase in board.phases if phase.pk in mine and phase.state == PhaseState.DONE]


def _was_done(series: TiltSeries, kind: str, decision: Decision, species: Species | None) -> bool:
    """Whether this decision has had its effect on the series: it has it once, also where it is applied again."""
    done = Event.objects.filter(decision=decision, subject_uuid=series.uuid, kind=kind)
    return any(event.data.get("species") == (species.label if species else None) for event in done)


def _decide(series: TiltSeries, author: Author, verdict: str, reason: str) -> Decision:
    ruling = Ruling(verdict, reason=reason.strip())
    return record_decision(lab_id=series.run.lab_id, subject=series.subject(), author=author, ruling=ruling)


def _say(
    series: TiltSeries, kind: str, author: Author, reason: str, decision: Decision, species: Species | None
) -> None:
    what = "excluded" if kind == "series.exclude" else "brought back"
    what += f" for {species.label}" if species else ""
    record_event(
        lab_id=series.run.lab_id,
        kind=kind,
        subject=series.subject(),
        message=f"{series.name}: {what} by {author.name}" + (f": {reason.strip()}" if reason.strip() else ""),
        data={"species": species.label} if species else {},
        decision=decision,
    )
