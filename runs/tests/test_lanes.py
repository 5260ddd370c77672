"""How a run is laid out: bands of lanes, with the gates between the phases."""

from types import SimpleNamespace
from typing import Any
from uuid import uuid4

from gates.models import Gate
from record.models import Decision
from runs.lanes import draw_bands, mark_of
from runs.models import Phase, Species
from runs.pipeline.spec import GateSpec, PhaseSpec, PipelineSpec

ALPHA, BETA = Species(pk=1, label="alpha", position=0), Species(pk=2, label="beta", position=1)


def spec(*gates: GateSpec) -> PipelineSpec:
    phases = tuple(PhaseSpec(key=key, title=key, per_species=False, scripts=()) for key in ("1", "2", "3"))
    return PipelineSpec(title="t", phases=phases, gates=gates)


def phase(key: str, species: Species | None = None) -> Phase:
    return Phase(key=key, species=species, uuid=uuid4())


def keys(bands: Any) -> list[list[str]]:
    return [band.keys for band in bands]


def test_shared_and_species_phases_take_turns_in_bands() -> None:
    bands = draw_bands(spec(), [phase("1"), phase("2", ALPHA), phase("2", BETA), phase("3")], [])
    assert keys(bands) == [["1"], ["2"], ["3"]]
    assert [lane.name for lane in bands[1].lanes] == ["alpha", "beta"]


def test_lanes_of_a_band_have_the_same_columns() -> None:
    gate = GateSpec(key="g", protocol="p", phase="2", where="after", title="Look")
    bands = draw_bands(spec(gate), [phase("1", ALPHA), phase("2", ALPHA), phase("2", BETA)], [])
    alpha, beta = bands[0].lanes
    assert len(alpha.cells) == len(beta.cells) == 3
    assert beta.cells[0].phase is None and beta.cells[2].mark is not None


def test_the_latest_iteration_of_a_gate_is_drawn() -> None:
    here = phase("1")
    gate = GateSpec(key="g", protocol="p", phase="1", where="before", title="Look")
    old = Gate(subject_uuid=here.uuid, key="g", iteration=1, state="timed_out", title="Old")
    new = Gate(subject_uuid=here.uuid, key="g", iteration=2, state="open", title="New")
    (band,) = draw_bands(spec(gate), [here], [new, old])
    mark = band.lanes[0].cells[0].mark
    assert mark is not None and (mark.gate, mark.look, mark.word) == (new, "waiting", "waits for a person")


def test_a_gate_that_nobody_has_asked_yet_is_drawn_idle() -> None:
    assert mark_of("Look", None).word == "not yet"


def test_a_decided_gate_shows_its_verdict() -> None:
    for verdict, look in [("approve", "done"), ("reject", "failed"), ("send_back", "skipped")]:
        gate = SimpleNamespace(state="applied", decision=Decision(verdict=verdict))
        assert mark_of("Look", gate).look == look  # type: ignore[arg-type]
