"""A run's phases as rows, and what each of them needs."""

from collections.abc import Collection, Iterator, Sequence

from runs.models import Phase, Run, Species
from runs.pipeline.spec import PhaseSpec, PipelineSpec
from runs.states import PhaseState

NOT_WANTED = "Optional, and not asked for when the run began. Run it again to have it done."


def insert_phases(
    run: Run, spec: PipelineSpec, lanes: Sequence[Species | None], *, optional: Collection[str]
) -> list[Phase]:
    """The phases of these lanes (None: that of all tilt series), and what they need, or are needed by, in the run.

    Those that are optional and whose keys are not among `optional` are skipped. In the caller's transaction, with the
    run locked where it was there before.
    """
    there = list(Phase.objects.filter(run=run).select_related("species"))
    rows = [
        _row(run, lane, phase, position, wanted=not phase.optional or phase.key in optional)
        for position, phase in enumerate(spec.phases)
        for lane in lanes
        if phase.per_species == (lane is not None)
    ]
    Phase.objects.bulk_create(rows)
    new = set(rows)
    through = Phase.needs.through
    through.objects.bulk_create(
        through(from_phase=phase, to_phase=needed)
        for phase, needed in _pairs(spec, [*there, *rows])
        if phase in new or needed in new
    )
    return rows


def rewire_phases(run: Run, spec: PipelineSpec) -> None:
    """Give the phases of a locked run the order, the titles and the needs that another version has."""
    phases = list(Phase.objects.filter(run=run).select_related("species"))
    places = {phase.key: place for place, phase in enumerate(spec.phases)}
    for phase in phases:
        phase.position, phase.title = places[phase.key], spec.by_key[phase.key].title[:300]
        phase.optional = spec.by_key[phase.key].optional
    Phase.objects.bulk_update(phases, ["position", "title", "optional"])
    through = Phase.needs.through
    through.objects.filter(from_phase__in=phases).delete()
    through.objects.bulk_create(through(from_phase=phase, to_phase=needed) for phase, needed in _pairs(spec, phases))


def wanted_phases(run: Run) -> set[str]:
    """Keys of the optional phases that were asked for in this run, by those of its lanes that are there."""
    return set(Phase.objects.filter(run=run, optional=True).exclude(reason=NOT_WANTED).values_list("key", flat=True))


def _row(run: Run, lane: Species | None, phase: PhaseSpec, position: int, *, wanted: bool) -> Phase:
    row = Phase(
        run=run, species=lane, key=phase.key, title=phase.title[:300], position=position, optional=phase.optional
    )
    if not wanted:
        row.state, row.reason = PhaseState.SKIPPED, NOT_WANTED
    return row


def _pairs(spec: PipelineSpec, phases: list[Phase]) -> Iterator[tuple[Phase, Phase]]:
    """(phase, one that it needs): in its own lane, or shared; a shared phase needs those of every lane.

    What comes after a phase that joins the lanes needs its own lane's as well: the others may go on without this one.
    """
    by_key: dict[str, list[Phase]] = {}
    for phase in phases:
        by_key.setdefault(phase.key, []).append(phase)
    for phase in phases:
        keys = needed_keys(spec, phase.key) if phase.species_id else spec.by_key[phase.key].needs
        for key in keys:
            for needed in by_key.get(key, []):
                if phase.species_id is None or needed.species_id in (None, phase.species_id):
                    yield phase, needed


def needed_keys(spec: PipelineSpec, key: str) -> list[str]:
    """Keys of what a phase of a lane needs: what the spec says, and what shared phases among these need of its lane."""
    found = dict.fromkeys(spec.by_key[key].needs)
    ahead = [each for each in found if not spec.by_key[each].per_species]
    seen = set(ahead)
    while ahead:
        for each in spec.by_key[ahead.pop()].needs:
            if spec.by_key[each].per_species:
                found.setdefault(each)
            elif each not in seen:
                seen.add(each)
                ahead.append(each)
    return list(found)
