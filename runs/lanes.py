"""A run as a picture: lanes (all tilt series, then each species) times phases, with the gates between them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gates.models import Gate
from gates.states import GateState
from runs.models import Phase, Species
from runs.pipeline.spec import GateSpec, PipelineSpec
from runs.states import PASSED, PhaseState

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
_MATTERS = (PhaseState.FAILED, PhaseState.CHECKPOINT, PhaseState.RUNNING, PhaseState.VERIFYING, PhaseState.READY)
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
class Group:
    """The parts of one phase in one lane, with no gate between them: shown folded."""

    title: str
    phases: list[Phase]

    @property
    def id(self) -> str:
        return f"group-{self.phases[0].pk}"

    @property
    def state(self) -> str:
        """Of the whole: done where all have passed, else that of the part which matters most now."""
        states = {PhaseState(phase.state) for phase in self.phases}
        if states <= PASSED:
            return PhaseState.DONE if PhaseState.DONE in states else PhaseState.SKIPPED
        return next((state for state in _MATTERS if state in states), PhaseState.PENDING)

    @property
    def passed(self) -> int:
        return sum(phase.state in PASSED for phase in self.phases)

    @property
    def stale(self) -> bool:
        return any(phase.stale_since for phase in self.phases)


@dataclass(frozen=True)
class Cell:
    """A phase, the parts of one, a gate, or nothing."""

    phase: Phase | None = None
    mark: GateMark | None = None
    group: Group | None = None


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
        for keys in _columns(spec, band.keys):
            here = [by_place.get((species_id, key)) for key in keys]
            before = [_gate_cell(gate, here[0], latest) for gate in spec.gates_at(keys[0], "before")]
            after = [_gate_cell(gate, here[-1], latest) for gate in spec.gates_at(keys[-1], "after")]
            lane.cells += [*before, _work_cell(spec, [phase for phase in here if phase]), *after]
    return sorted(lanes.values(), key=lambda lane: lane.species.position if lane.species else -1)


def _columns(spec: PipelineSpec, keys: list[str]) -> list[list[str]]:
    """The keys of each column: parts of one phase share theirs as far as no gate stands between them."""
    columns: list[list[str]] = []
    for key in keys:
        last = columns[-1][-1] if columns else ""
        group = spec.by_key[key].group
        together = bool(last and group) and spec.by_key[last].group == group
        if together and not spec.gates_at(last, "after") and not spec.gates_at(key, "before"):
            columns[-1].append(key)
        else:
            columns.append([key])
    return columns


def _work_cell(spec: PipelineSpec, phases: list[Phase]) -> Cell:
    if len(phases) < 2:
        return Cell(phase=phases[0] if phases else None)
    return Cell(group=Group(spec.groups[spec.by_key[phases[0].key].group], phases))


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
