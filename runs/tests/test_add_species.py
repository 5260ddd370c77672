"""A species that comes to a run later has a lane of its own, on the tomograms that are there."""

import struct
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from record.errors import BadInput, InvalidTransition, NotAllowed
from record.models import Decision, Door, Event
from record.services import Author
from runs.models import Phase, Run, Species
from runs.pipeline.spec import spec_of
from runs.services.control import cancel_run
from runs.services.species import add_species, offered_values
from runs.tests.factories import MANIFEST, Bench, phase_of, states, trace, write_pipeline

PATTERN = "TM_LABEL=\nMIN_SCORE=0.7\n"
FIELD_PATTERN = (
    "TM_LABEL=\nMIN_SCORE=0.7\nINPUT_MRC=/path/to/map.mrc\nMAP_ANGPIX=\nDIAMETER=\nTEMPLATE_INVERT=0\n"
    "NUM_CANDIDATES=100\nDATADIR=subtomo\nTM_BOX_SIZE=32\n"
)


def add(bench: Bench, run: Run, label: str = "gamma", **values: Any) -> Species:
    return add_species(run=run, label=label, values=values, author=bench.operator, reason="seen in the tomograms")[0]


def mrc(path: Path, *sides: int, order: str = "<") -> Path:
    """A volume of zeros (mode 2), x y z as given."""
    path.parent.mkdir(parents=True, exist_ok=True)
    header = bytearray(1024)
    struct.pack_into(f"{order}4i", header, 0, *sides, 2)
    path.write_bytes(bytes(header) + bytes(4 * sides[0] * sides[1] * sides[2]))
    return path


@pytest.fixture
def with_pattern(bench: Bench) -> Run:
    write_pipeline(bench.folder / "pipeline", **{"species.conf": PATTERN})
    run = bench.begin(species=["alpha"])
    bench.drive()
    return run


@pytest.fixture
def of_the_field(bench: Bench) -> Run:
    """A run whose species conf has the names that labs use."""
    write_pipeline(bench.folder / "pipeline", **{"species.conf": FIELD_PATTERN})
    return bench.begin(species=["alpha"])


def test_its_lane_begins_on_the_same_tomograms(bench: Bench, with_pattern: Run) -> None:
    run = with_pattern
    bench.approve("look")
    add(bench, run, MIN_SCORE=0.9)
    assert states(run)["3a (gamma)"] == "ready"
    bench.drive()
    run.refresh_from_db()
    assert run.state == "done"
    assert trace(run).count("import") == 1
    assert (Path(run.work_dir) / "average/gamma/map.txt").read_text() == "0.9\n" * 3
    decision = Decision.objects.get(verdict="add_species")
    assert decision.config_after == {"TM_LABEL": "gamma", "MIN_SCORE": "0.9"}
    assert Event.objects.get(kind="run.add_species").decision == decision


def test_a_run_that_was_done_is_reopened(bench: Bench, with_pattern: Run) -> None:
    bench.approve("look")
    bench.drive()
    add(bench, with_pattern, "beta")
    run = Run.objects.get(pk=with_pattern.pk)
    assert run.state == "running" and run.ended_at is None
    bench.drive()
    run.refresh_from_db()
    assert run.state == "done" and [each.label for each in run.species.all()] == ["alpha", "beta"]


def test_what_gathers_all_species_waits_for_it_and_becomes_stale(bench: Bench) -> None:
    manifest = MANIFEST + "  4:\n    scripts: [import.slurm]\n    outputs: [tomostar/*.tomostar]\n"
    write_pipeline(bench.folder / "pipeline", **{"scripts/manifest.yml": manifest})
    run = bench.begin(species=["alpha"])
    bench.drive()
    add(bench, run, "beta")
    needs = {phase.label for phase in phase_of(run, "4").needs.all()}
    assert needs == {"3b (alpha)", "3b (beta)"}
    bench.approve("look")
    bench.drive()
    write_pipeline(bench.folder / "pipeline", **{"scripts/manifest.yml": manifest})
    assert phase_of(run, "4").stale_since is None

    second = bench.begin("second", species=["alpha"])
    bench.drive()
    bench.approve("look")
    bench.drive()
    add(bench, second, "beta")
    assert phase_of(second, "4").stale_by == Decision.objects.get(verdict="add_species", root_uuid=second.uuid)
    assert phase_of(second, "4").state == "done"


@pytest.mark.parametrize(
    ("label", "words"),
    [("alpha", "has the species alpha already"), ("a b", "can't be a species"), ("../x", "can't be a species")],
)
def test_labels_that_are_refused(bench: Bench, with_pattern: Run, label: str, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        add(bench, with_pattern, label)
    assert Species.objects.count() == 1 and not Decision.objects.filter(verdict="add_species").exists()


def test_without_a_pattern_only_its_own_species_can_come(bench: Bench) -> None:
    run = bench.begin(species=["alpha"])
    with pytest.raises(BadInput, match="no species 'gamma'; it has: alpha, beta"):
        add(bench, run)
    assert add(bench, run, "beta").position == 1


def test_only_operators_of_a_run_that_goes_on(bench: Bench, with_pattern: Run) -> None:
    with pytest.raises(NotAllowed):
        author = Author.person(bench.people.reviewer, Door.WEB)
        add_species(run=with_pattern, label="gamma", values={}, author=author)
    cancel_run(run=with_pattern, author=bench.operator)
    with pytest.raises(InvalidTransition, match="is cancelled"):
        add(bench, with_pattern)
    assert Phase.objects.filter(species__label="gamma").count() == 0


def test_what_labs_must_give(bench: Bench, of_the_field: Run) -> None:
    with pytest.raises(BadInput, match="DIAMETER has no value"):
        add(bench, of_the_field)
    with pytest.raises(BadInput, match="NUM_CANDIDATES is '0'.*TEMPLATE_INVERT is 'maybe'"):
        add(bench, of_the_field, DIAMETER=320, NUM_CANDIDATES=0, TEMPLATE_INVERT="maybe")
    with pytest.raises(BadInput, match="Give INPUT_MRC and MAP_ANGPIX, or put a template at .*templates/gamma_tm.mrc"):
        add(bench, of_the_field, DIAMETER=320)
    with pytest.raises(BadInput, match="INPUT_MRC can't be read: .* is not there.*MAP_ANGPIX is ''"):
        add(bench, of_the_field, DIAMETER=320, INPUT_MRC="/nowhere/map.mrc")
    assert not Species.objects.filter(label="gamma").exists()


def test_a_map_is_enough_and_the_folder_is_its_own(bench: Bench, of_the_field: Run) -> None:
    path = mrc(bench.folder / "map.mrc", 8, 8, 8)
    species = add(bench, of_the_field, DIAMETER=320, INPUT_MRC=str(path), MAP_ANGPIX=4.5)
    assert species.conf["DATADIR"] == "subtomo_gamma"
    other = {"DIAMETER": 150, "INPUT_MRC": str(path), "MAP_ANGPIX": 4.5, "DATADIR": "subtomo_gamma/"}
    with pytest.raises(BadInput, match="gamma exports into .*subtomo_gamma already"):
        add(bench, of_the_field, "delta", **other)


@pytest.mark.parametrize("order", ["<", ">"])
def test_a_ready_template_must_fill_its_box(bench: Bench, of_the_field: Run, order: str) -> None:
    where = Path(of_the_field.work_dir) / "templates/gamma_tm.mrc"
    mrc(where, 32, 32, 30, order=order)
    with pytest.raises(BadInput, match="has 32 x 32 x 30 px, and TM_BOX_SIZE is 32 px"):
        add(bench, of_the_field, DIAMETER=320)
    where.write_bytes(where.read_bytes()[:500])
    with pytest.raises(BadInput, match="is cut off"):
        add(bench, of_the_field, DIAMETER=320)
    mrc(where, 32, 32, 32, order=order)
    assert add(bench, of_the_field, DIAMETER=320).label == "gamma"


def test_what_is_offered_on_the_page(bench: Bench, of_the_field: Run) -> None:
    assert offered_values(spec_of(of_the_field.snapshot)) == [
        "INPUT_MRC", "MAP_ANGPIX", "DIAMETER", "TEMPLATE_INVERT", "NUM_CANDIDATES", "DATADIR", "MIN_SCORE",
    ]  # fmt: skip


def test_the_page_tells_what_is_wrong_beside_the_field(bench: Bench, of_the_field: Run, client: Client) -> None:
    client.force_login(bench.people.operator)
    page = f"/runs/{of_the_field.pk}/species/"
    assert "add a species" in client.get(f"/runs/{of_the_field.pk}/").content.decode()
    answer = client.post(page, {"label": "gamma", "conf_NUM_CANDIDATES": "-3"})
    assert answer.status_code == 400
    text = answer.content.decode()
    assert "DIAMETER has no value." in text and "give a whole number above 0" in text
    mrc(Path(of_the_field.work_dir) / "templates/gamma_tm.mrc", 32, 32, 32)
    assert client.post(page, {"label": "gamma", "conf_DIAMETER": "320"}).status_code == 302
    assert Species.objects.get(label="gamma").conf["DIAMETER"] == "320"
