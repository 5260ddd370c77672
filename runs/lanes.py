"""A run as a picture: lanes (all tilt series, then each species) times phases, with the gates between them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gates.models import Gate
from gates.states import GateState
from runs.models import Phase, Species
from runs.pipeline.spec import GateSpec, PipelineSpec

SHARED = "all tilt series"
_LOOK_OF_STATE = {
    GateState.OPEN: ("waiting", "?"),
    GateState.PREPARING: ("running", "…"),
    GateState.DECIDED: ("running", "…"),
    GateState.APPLYING: ("running", "…"),
    GateState.PREPARE_FAILED: ("failed", "!"),
    GateState.APPLY_FAILED: ("failed", "!"),
    GateState.TIMED_OUT: ("failed", "✕"),
    GateState.WITHDRAWN: ("skipped", "–"),
}
_LOOK_OF_VERDICT = {"send_back": ("skipped", "↺"), "reject": ("failed", "✕")}
_WORD_OF_VERDICT = {"approve": "approved", "send_back": "sent back", "reject": "rejected"}


@dataclass(frozen=True)
class GateMark:
    """A gate's diamond. `gate` is its latest iteration, None while nobody has asked yet."""

    title: str
    look: str = "idle"
    sign: str = "·"
    word: str = "not yet"
    gate: Gate | None = None


@dataclass(frozen=True)
class Cell:
    """A phase, a gate, or nothing."""

    phase: Phase | None = None
    mark: GateMark | None = None


@dataclass
class Lane:
    """One row of a band. `species` is None for the lane of all tilt series."""

    name: str
    species: Species | None
    cells: list[Cell] = field(default_factory=list)


@dataclass
class Band:
    """Lanes side by side over the same columns. A run is read band by band, as lines of a text."""

    shared: bool
    keys: list[str]
    lanes: list[Lane] = field(default_factory=list)


def draw_bands(spec: PipelineSpec, phases: Sequence[Phase], gates: Iterable[Gate]) -> list[Band]:
    """The phases in their order, cut where work on all tilt series and work on species take turns.

    Each lane has one cell a column: of each phase the gates before it, itself, the gates after it. `phases` stand in
    their order, with `species` loaded; `gates` are all those of the run, in any order.
    """
    latest = latest_iterations(gates)
    bands: list[Band] = []
    for phase in phases:
        shared = phase.species_id is None
        if not bands or (bands[-1].shared != shared and not _is_in(bands, phase.key)):
            bands.append(Band(shared, []))
        band = next((each for each in bands if phase.key in each.keys), bands[-1])
        if phase.key not in band.keys:
            band.keys.append(phase.key)
    for band in bands:
        band.lanes = _lanes(spec, band, [phase for phase in phases if phase.key in band.keys], latest)
    return bands


def _is_in(bands: list[Band], key: str) -> bool:
    return any(key in band.keys for band in bands)


def _lanes(spec: PipelineSpec, band: Band, phases: list[Phase], latest: dict[tuple[object, str], Gate]) -> list[Lane]:
    lanes: dict[int | None, Lane] = {}
    by_place: dict[tuple[int | None, str], Phase] = {}
    for phase in phases:
        lanes.setdefault(phase.species_id, Lane(phase.species.label if phase.species else SHARED, phase.species))
        by_place[phase.species_id, phase.key] = phase
    for species_id, lane in lanes.items():
        for key in band.keys:
            here = by_place.get((species_id, key))
            before = [_gate_cell(gate, here, latest) for gate in spec.gates_at(key, "before")]
            after = [_gate_cell(gate, here, latest) for gate in spec.gates_at(key, "after")]
            lane.cells += [*before, Cell(phase=here), *after]
    return sorted(lanes.values(), key=lambda lane: lane.species.position if lane.species else -1)


def latest_iterations(gates: Iterable[Gate]) -> dict[tuple[object, str], Gate]:
    """(subject's UUID, gate's key) -> its latest iteration."""
    return {(gate.subject_uuid, gate.key): gate for gate in sorted(gates, key=lambda gate: gate.iteration)}


def mark_of(title: str, gate: Gate | None) -> GateMark:
    """How a gate is drawn: its look, a sign and a word."""
    if gate is None:
        return GateMark(title)
    if gate.state == GateState.APPLIED:
        verdict = gate.decision.verdict if gate.decision else ""
        look, sign = _LOOK_OF_VERDICT.get(verdict, ("done", "✓"))
        return GateMark(title, look, sign, _WORD_OF_VERDICT.get(verdict, verdict.replace("_", " ")), gate)
    look, sign = _LOOK_OF_STATE.get(GateState(gate.state), ("idle", "·"))
    word = "waits for a person" if gate.state == GateState.OPEN else gate.get_state_display().lower()
    return GateMark(title, look, sign, word, gate)


def _gate_cell(spec: GateSpec, phase: Phase | None, latest: dict[tuple[object, str], Gate]) -> Cell:
    if phase is None:
        return Cell()
    gate = latest.get((phase.uuid, spec.key))
    return Cell(mark=mark_of(gate.title if gate else spec.title, gate))
