"""A run's phases and what they need, read at once: the engine and the controls think on it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from django.db import connection
from django.db.models import QuerySet

from gates.models import Gate
from gates.states import ENDED
from record.errors import BadInput, InvalidTransition
from record.prepared import Prepared
from runs.models import LeftOut, Phase, Run, Species, TiltSeries
from runs.pipeline.spec import PhaseSpec, PipelineSpec, spec_of
from runs.states import PASSED, PhaseState


def lock_run(run_id: int) -> Run:
    """The run, locked until the transaction ends: whoever changes a run or its phases begins with this.

    Its gates that have not ended are locked after it, by their keys: what is done to a run may end in any of them, in
    any order, and gates come before jobs and the head of the lab's chain (see gates.services.locking).
    """
    if not connection.in_atomic_block:
        raise RuntimeError("lock_run belongs in a transaction")
    run = _RUN.first(run_id)
    if run is None:
        raise BadInput(f"There is no run with the key {run_id}.")
    if connection.features.has_select_for_update:
        _GATES.all(run.uuid)
    return run


def _locked_run(pk: Any) -> QuerySet[Run]:
    runs = Run.objects.select_related("snapshot", "target").defer("snapshot__spec").filter(pk=pk).order_by()
    return runs.select_for_update(of=("self",), no_key=True) if connection.features.has_select_for_update else runs


def _locked_gates(root_uuid: Any) -> QuerySet[Gate, int]:
    gates = Gate.objects.filter(root_uuid=root_uuid).exclude(state__in=ENDED).order_by("id")
    return gates.select_for_update(no_key=True).values_list("pk", flat=True)


def _needs(**conditions: Any) -> QuerySet[Any, tuple[int, int, int | None]]:
    """(phase's key, that of one which it needs, that of this one's species)."""
    through = Phase.needs.through.objects.filter(**conditions)
    return through.values_list("from_phase_id", "to_phase_id", "to_phase__species_id")


_RUN = Prepared(_locked_run)
_GATES = Prepared(_locked_gates)
_SERIES = Prepared(lambda run: TiltSeries.objects.filter(run=run).order_by().values_list("name", "excluded_by"))
_LEFT_OUT = Prepared(
    lambda species: LeftOut.objects.filter(species=species).order_by().values_list("series__name", flat=True)
)
_PHASES = Prepared(lambda run: Phase.objects.of_board(run))
_PHASES_AT_HAND = Prepared(lambda run: Phase.objects.of_board(run).at_hand())
_PHASE = Prepared(lambda pk: Phase.objects.filter(pk=pk).select_related("species").order_by())
_NEEDS = Prepared(lambda run: _needs(from_phase__run=run))
_NEEDS_AT_HAND = Prepared(
    lambda run: _needs(
        from_phase__in=Phase.objects.filter(run=run).at_hand(), to_phase__in=Phase.objects.filter(run=run).ahead()
    )
)


@dataclass(frozen=True)
class SeriesNames:
    """Names of a run's tilt series, sorted."""

    active: list[str]
    excluded: list[str]


def series_names(run: Run, species: Species | None = None) -> SeriesNames:
    """The tilt series that the run takes along and those that are excluded, in one query; for a species in two.

    A species' lane excludes what the run does, and what was left out for it alone.
    """
    rows = sorted(_SERIES.all(run.pk))
    left_out = set(_LEFT_OUT.all(species.pk)) if species else set()
    excluded = [name for name, by in rows if by is not None or name in left_out]
    return SeriesNames([name for name, by in rows if by is None and name not in left_out], excluded)


def refuse_archived(run: Run) -> None:
    """InvalidTransition where the run is archived."""
    if run.archived_at:
        raise InvalidTransition(f"Run {run.name} is archived: it can be looked at, and nothing more.")


@dataclass
class Board:
    """A run, its spec, its phases in order, and for each phase's key the phases it needs.

    `missing` tells of phases that need some which are not on the board, as they can't be passed yet: in which lanes
    these are (None: shared).
    """

    run: Run
    spec: PipelineSpec
    phases: list[Phase] = field(default_factory=list)
    needs: dict[int, list[Phase]] = field(default_factory=dict)
    missing: dict[int, set[int | None]] = field(default_factory=dict)

    @classmethod
    def load(cls, run: Run) -> "Board":
        """Two queries, however many phases there are."""
        return cls._of(run, _PHASES.all(run.pk), _NEEDS.all(run.pk))

    @classmethod
    def at_hand(cls, run: Run) -> "Board":
        """With those phases only that can go on once others on it have, and what they need of all that isn't passed.

        Enough to advance on: a phase that is pending is not passed by any advance, so that what needs it has to wait.
        """
        return cls._of(run, _PHASES_AT_HAND.all(run.pk), _NEEDS_AT_HAND.all(run.pk))

    @classmethod
    def _of(cls, run: Run, phases: list[Phase], pairs: list[tuple[int, int, int | None]]) -> "Board":
        by_pk = {phase.pk: phase for phase in phases}
        for phase in phases:
            phase.run = run
        needs: dict[int, list[Phase]] = {phase.pk: [] for phase in phases}
        missing: dict[int, set[int | None]] = {}
        for pk, needed, species_id in pairs:
            if needed in by_pk:
                needs[pk].append(by_pk[needed])
            else:
                missing.setdefault(pk, set()).add(species_id)
        return cls(run, spec_of(run.snapshot), phases, needs, missing)

    @classmethod
    def of_phase(cls, run: Run, pk: int) -> "Board":
        """With one phase only, and nothing of what it needs: one query, for what concerns no other phase."""
        phases = _PHASE.all(pk)
        for phase in phases:
            phase.run = run
        return cls(run, spec_of(run.snapshot), phases)

    def phase(self, pk: int) -> Phase:
        """The phase with that key, as it stands on this board."""
        return next(phase for phase in self.phases if phase.pk == pk)

    def find(self, pk: int) -> Phase | None:
        """The same; None where the board has no such phase."""
        return next((phase for phase in self.phases if phase.pk == pk), None)

    def excluded_for(self, phase: Phase) -> list[str]:
        """Names of the tilt series that the phase leaves out, sorted, as they were when first asked for."""
        if phase.species_id not in self._excluded:
            self._excluded[phase.species_id] = series_names(self.run, phase.species).excluded
        return self._excluded[phase.species_id]

    @cached_property
    def _excluded(self) -> dict[int | None, list[str]]:
        return {}

    def spec_for(self, phase: Phase) -> PhaseSpec:
        return self.spec.by_key[phase.key]

    def is_free(self, phase: Phase) -> bool:
        """Whether everything that the phase needs has been passed and is not to be run again.

        A phase that is skipped stands for what it needs itself: it may be skipped long before that is done. What
        joins the lanes doesn't wait for those of which something was rejected, as long as another takes part.
        """
        needs, missing = self.needs[phase.pk], self.missing.get(phase.pk, set())
        rejected = set() if phase.species_id else self.rejected_lanes()
        if rejected & (missing | {needed.species_id for needed in needs}):
            if not self._has_other_lanes():
                return False
            needs = [needed for needed in needs if needed.species_id not in rejected]
            missing = missing - rejected
        return not missing and all(
            is_passed(needed) and (needed.state != PhaseState.SKIPPED or self.is_free(needed)) for needed in needs
        )

    def rejected_lanes(self) -> set[int | None]:
        """Keys of the species in whose lane something was rejected at a gate, and not been done anew since."""
        return {phase.species_id for phase in self.phases if phase.species_id and phase.is_rejected}

    def _has_other_lanes(self) -> bool:
        taking_part = Species.objects.filter(run=self.run).taking_part()
        return taking_part.exclude(pk__in=self.rejected_lanes()).exists()

    def without_dropped(self, phases: Iterable[Phase]) -> list[Phase]:
        """Those of the phases that are not of a species which was dropped."""
        return [phase for phase in phases if phase.species is None or phase.species.dropped_by_id is None]

    def is_finished(self) -> bool:
        return all(is_passed(phase) for phase in self.phases)

    def dependents(self, phase: Phase) -> Iterator[Phase]:
        """The phases that need this one, directly or through others, in order."""
        found = {phase.pk}
        while True:
            more = {pk for pk, needed in self.needs.items() if pk not in found and found & {n.pk for n in needed}}
            if not more:
                break
            found |= more
        return (each for each in self.phases if each.pk in found and each.pk != phase.pk)


def is_passed(phase: Phase) -> bool:
    """Done or skipped, and not to be run again."""
    return phase.state in PASSED and not phase.again


def has_begun(phase: Phase) -> bool:
    """Whether anything has been done for it since it was last reset."""
    return phase.state not in (PhaseState.PENDING,) or phase.again
