"""How a run is laid out: bands of lanes, with the gates between the phases."""

from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from gates.models import Gate
from record.models import Decision
from runs.lanes import Group, draw_bands, mark_of
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


def test_parts_of_a_phase_share_a_column_as_far_as_no_gate_stands_between() -> None:
    parts = [PhaseSpec(key=f"6{part}", title=part, per_species=False, scripts=(), group="6") for part in "abcd"]
    alone = PhaseSpec(key="7", title="7", per_species=False, scripts=())
    gate = GateSpec(key="g", protocol="p", phase="6b", where="after", title="Look")
    whole = PipelineSpec(title="t", phases=(*parts, alone), gates=(gate,), groups={"6": "Matching"})
    (band,) = draw_bands(whole, [phase(key, ALPHA) for key in ("6a", "6b", "6c", "6d", "7")], [])
    first, mark, second, last = band.lanes[0].cells
    assert first.group is not None and second.group is not None
    assert [each.key for each in first.group.phases] == ["6a", "6b"]
    assert [each.key for each in second.group.phases] == ["6c", "6d"]
    assert first.group.title == "Matching" and mark.mark is not None and last.phase is not None


@pytest.mark.parametrize(
    ("states", "state", "passed"),
    [
        (["done", "skipped"], "done", 2),
        (["skipped", "skipped"], "skipped", 2),
        (["done", "failed", "running"], "failed", 1),
        (["done", "running", "ready"], "running", 1),
        (["done", "pending"], "pending", 1),
    ],
)
def test_a_group_is_in_the_state_that_matters_most(states: list[str], state: str, passed: int) -> None:
    group = Group("Matching", [Phase(key=str(i), state=each) for i, each in enumerate(states)])
    assert (group.state, group.passed) == (state, passed)


def test_a_gate_that_nobody_has_asked_yet_is_drawn_idle() -> None:
    assert mark_of("Look", None).word == "not yet"


def test_a_decided_gate_shows_its_verdict() -> None:
    for verdict, look in [("approve", "done"), ("reject", "failed"), ("send_back", "skipped")]:
        gate = SimpleNamespace(state="applied", decision=Decision(verdict=verdict))
        assert mark_of("Look", gate).look == look  # type: ignore[arg-type]
