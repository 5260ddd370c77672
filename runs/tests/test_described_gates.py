"""Gates that a pipeline describes itself: their pictures, made by the project's renderers."""

from pathlib import Path

import numpy as np
import pytest

from gates.models import Gate
from jobs.models import Job
from record.errors import BadInput
from runs.models import Phase, Run
from runs.pipeline.load import load_pipeline
from runs.tests.factories import FILES, MANIFEST, OVERLAY, Bench, write_pipeline

COMMANDS = """
    files: {tomogram: recon/TS_XXX.mrc}
    options: {commands: [[slices, "{tomogram}", --apix, "${DIM}"], [averages, --map, recon/TS_001.mrc]]}
"""
RECON = FILES["scripts/recon.slurm"].replace('echo "$DIM" > "recon/$s.txt"', 'cp ../tomogram.mrc "recon/$s.mrc"')


def described(bench: Bench, gate: str, **files: str) -> Path:
    head, _, tail = OVERLAY.partition("    options:")
    overlay = head + gate.lstrip("\n") + tail.partition("\n")[2]
    manifest = MANIFEST.replace("recon/TS_XXX.txt", "recon/TS_XXX.mrc")
    contents = {"scripts/conductor.yml": overlay, "scripts/manifest.yml": manifest, "scripts/recon.slurm": RECON}
    return write_pipeline(bench.folder / "pipeline", **contents | files)


def at_the_gate(bench: Bench) -> tuple[Run, Gate]:
    import mrcfile

    volume = np.random.default_rng(1).normal(size=(8, 16, 16)).astype(np.float32)
    (bench.folder / "work").mkdir()
    mrcfile.write(bench.folder / "work" / "tomogram.mrc", volume, voxel_size=10)
    run = bench.begin(species=[])
    bench.drive()
    return run, Gate.objects.get(key="look")


def test_its_pictures_are_made_of_the_files_it_names(bench: Bench) -> None:
    described(bench, COMMANDS)
    run, gate = at_the_gate(bench)
    assert gate.state == "open", gate.error
    assert set(gate.evidence.values_list("item", flat=True)) >= {"TS_001", "TS_002", "TS_003"}
    assert list(gate.figures) == ["01_several/001_slices", "01_several/002_averages"]
    assert Job.objects.get(purpose="evidence").script.count(" -m runs.qc ") == 1, "one Python for all of it"


def test_one_command_alone(bench: Bench) -> None:
    described(bench, COMMANDS.replace(", [averages, --map, recon/TS_001.mrc]", ""))
    _, gate = at_the_gate(bench)
    assert (gate.state, list(gate.figures)) == ("open", ["01_slices"]), gate.error


def test_a_file_or_value_that_lacks_is_told_at_the_gate(bench: Bench) -> None:
    described(bench, COMMANDS.replace("files: {tomogram: recon", "files: {tomogram: nowhere"))
    _, gate = at_the_gate(bench)
    assert gate.state == "prepare_failed" and "no file nowhere/TS_XXX.mrc was found" in gate.error


def test_a_value_that_is_not_set_is_told_at_the_gate(bench: Bench) -> None:
    described(bench, COMMANDS.replace("${DIM}", "${SIZE}"))
    _, gate = at_the_gate(bench)
    assert gate.state == "prepare_failed" and "${SIZE} can't be filled in: the value is not set" in gate.error


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("[slices,", "[rm,", "no renderer 'rm'; there are: slices, picks"),
        ('"{tomogram}"', '"{volume}"', "no pattern of a file 'volume' is given under `files`"),
        ("--apix", "--out", "leave '--out' out"),
    ],
)
def test_faults_are_told_before_a_run_begins(bench: Bench, old: str, new: str, words: str) -> None:
    folder = described(bench, COMMANDS.replace(old, new))
    with pytest.raises(BadInput, match=words):
        load_pipeline(str(folder))


def test_phases_are_named_by_their_titles() -> None:
    assert Phase(key="2", title="Alignment").named == "Alignment (phase 2)"
    assert Phase(key="2", title="2").named == "phase 2"
    assert Phase(key="2", title="Phase 2").named == "phase 2"
    assert Phase(key="phase2", title="Alignment").named == "Alignment (phase2)"
    assert len(Phase(key="2", title="x" * 300).named) < 100
