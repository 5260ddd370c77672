"""The scripts, one after another, as a cluster runs them: results, resuming, exclusion, faults in words."""

import json
import subprocess
import sys

import mrcfile
import numpy as np
import pytest
import yaml

from .conftest import OF_SPECIES, PIPELINE, SHARED, set_values, values_of

pytestmark = pytest.mark.slow  # they look at one run of all phases


def evaluated(lab, *, excluded="TS_003"):
    command = [sys.executable, "-m", "tomo", "evaluate", "--work", str(lab.work), "--json"]
    environment = {"PYTHONPATH": str(PIPELINE), "EXCLUDED_SERIES": excluded}
    return json.loads(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)


def test_both_species_are_found_and_the_resolution_fits_the_pixel(finished):
    figures = evaluated(finished)
    for label in ("alpha", "beta"):
        assert figures["recall"][label] > 0.85 and figures["precision"][label] > 0.85
        assert 20.0 <= figures["resolution_angstrom"][label] <= 80.0


def test_the_masks_are_soft_and_end_within_the_box(finished):
    from runs.qc.mask import NARROW_EDGE_PX, mask_figures

    for label in ("alpha", "beta"):
        density, mask = (mrcfile.read(finished.work / "average" / label / f"{name}.mrc") for name in ("map", "mask"))
        figures = mask_figures(density, mask)
        assert figures["edge_width_px"] > NARROW_EDGE_PX and figures["density_inside"] > 0.9
        assert max(face.max() for face in (mask[[0, -1]], mask[:, [0, -1]], mask[:, :, [0, -1]])) == 0


def test_the_spoilt_series_stands_out(finished):
    rows = (finished.work / "tiltstack" / "alignment.tsv").read_text().splitlines()[1:]
    figures = {row.split("\t")[0]: [float(n) for n in row.split("\t")[1:3]] for row in rows}
    others = [figures[name] for name in figures if name != "TS_003"]
    limit_px = float(values_of(PIPELINE / "pipeline.conf")["MAX_RESIDUAL_PX"])
    assert max(residual for residual, _ in others) < limit_px and figures["TS_003"][0] > 2 * limit_px
    assert figures["TS_003"][1] < 0.5 * min(correlation for _, correlation in others)


def test_with_the_spoilt_series_left_in_recall_falls(finished):
    with_it = evaluated(finished, excluded="")
    without = evaluated(finished)
    assert all(with_it["recall"][label] < 0.8 < without["recall"][label] for label in ("alpha", "beta"))


def test_excluded_series_appear_in_no_later_phase(finished):
    for folder in ("template_matching", "subtomo", "average", "mapback"):
        paths = list((finished.work / folder).rglob("*"))
        assert paths and not [path for path in paths if "TS_003" in path.name]
    assert "TS_003" not in (finished.work / "subtomo" / "alpha" / "particles.star").read_text()


def test_the_manifest_names_every_script_once_and_its_outputs_are_there(finished):
    phases = yaml.safe_load((PIPELINE / "scripts" / "manifest.yml").read_text())["phases"]
    named = [script for phase in phases.values() for script in phase["scripts"]]
    assert sorted(named) == sorted(path.name for path in (PIPELINE / "scripts").glob("*.slurm"))
    assert [name.removesuffix(".slurm") for name in named] == [*SHARED, *OF_SPECIES]
    for phase in phases.values():
        for output in phase["outputs"]:
            pattern = output.replace("${TM_LABEL}", "alpha").replace("TS_XXX", "TS_001")
            assert list(finished.work.glob(pattern)), output


def test_volumes_carry_their_pixel_size_and_nothing_temporary_is_left(finished):
    for path in [*finished.work.rglob("*.mrc"), *finished.work.rglob("*.mrcs")]:
        with mrcfile.open(path) as mrc:
            assert mrc.voxel_size.x == pytest.approx(10.0) and np.isfinite(mrc.data).all(), path
    assert not [path for path in finished.work.rglob(".*") if not path.name.endswith(".made_with")]


def test_a_phase_goes_on_where_it_was_and_keeps_what_is_done(lab):
    lab.must_run("import_tiltseries")
    kept = lab.work / "tiltstack" / "TS_001" / "TS_001.mrc"
    before = kept.stat().st_mtime_ns
    (lab.work / "tomostar" / "TS_002.tomostar").unlink()
    said = lab.must_run("import_tiltseries")
    assert "TS_001 1/4 simulated already, kept" in said and "TS_002 2/4 simulated (" in said
    assert kept.stat().st_mtime_ns == before


def test_a_phase_that_is_run_again_with_other_values_does_its_work(lab):
    set_values(lab.skill / "pipeline.conf", {"NUM_SERIES": "1", "ALIGN_ITERATIONS": "1"})
    for script in SHARED:
        lab.must_run(script)
    assert "already, kept" in lab.must_run("reconstruct")
    set_values(lab.skill / "pipeline.conf", {"TOMO_DIM_Z": "24"})
    assert "64x64x24" in lab.must_run("reconstruct")


def test_series_listed_in_the_work_folder_are_excluded_too(lab):
    set_values(lab.skill / "pipeline.conf", {"ALIGN_ITERATIONS": "1"})
    lab.must_run("import_tiltseries")
    (lab.work / "excluded_series.txt").write_text("TS_003\nTS_004\n")
    lab.extra["TILT_SERIES"] = "TS_002 TS_003"
    said = lab.must_run("align_tiltseries")
    assert "TS_002 1/1 aligned" in said and "TS_003" not in said


def test_the_same_seed_gives_the_same_images(lab, tmp_path_factory):
    from .conftest import make_lab

    other = make_lab(tmp_path_factory.mktemp("other"))
    for one in (lab, other):
        set_values(one.skill / "pipeline.conf", {"NUM_SERIES": "1"})
        one.must_run("import_tiltseries")
    first, second = ((one.work / "tiltstack/TS_001/TS_001.mrc") for one in (lab, other))
    with mrcfile.open(first) as a, mrcfile.open(second) as b:
        assert (a.data == b.data).all()


@pytest.mark.parametrize(
    ("script", "values", "words"),
    [
        ("import_tiltseries", {"SCENE_MARGIN_PX": "22"}, "No room for particle"),
        ("import_tiltseries", {"SOURCE": "camera"}, "SOURCE is 'camera'"),
        (
            "import_tiltseries",
            {"SOURCE": "mrc", "STACK_MRC": "no.mrc", "STACK_RAWTLT": "no.rawtlt"},
            "no.mrc is not there",
        ),
        ("align_tiltseries", {}, "No tilt series to work on"),
    ],
)
def test_a_fault_is_one_sentence_and_exit_code_1(lab, script, values, words):
    set_values(lab.skill / "pipeline.conf", values)
    done = lab.run(script)
    assert done.returncode == 1 and words in done.stderr and "Traceback" not in done.stderr


def test_a_threshold_that_keeps_nothing_says_so(finished):
    conf = finished.skill / "species_beta.conf"
    text = conf.read_text()
    try:
        set_values(conf, {"MIN_SCORE": "0.99"})
        done = finished.run("extract_subtomo", "beta")
    finally:
        conf.write_text(text)
    assert done.returncode == 1 and "lower it" in done.stderr
