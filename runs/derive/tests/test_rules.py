"""Each derived value with the numbers that it must come to."""

from fractions import Fraction

import pytest

from runs.derive.checks import findings
from runs.derive.collisions import shared_folders
from runs.derive.graph import DerivedRow, derived_rows
from runs.derive.numbers import exact
from runs.derive.tilts import missing_wedge, read_tilts, tilt_step


def row(name: str, **values: str) -> DerivedRow:
    return next(each for each in derived_rows(values) if each.rule.name == name)


def derived(name: str, **values: str) -> str:
    return row(name, **values).computed


def test_align_angpix() -> None:
    assert derived("ALIGN_ANGPIX", ANGPIX="3.37", BINNING_FACTOR="4") == "13.48"


@pytest.mark.parametrize("binning", ["0", "-4", "1.5"])
def test_binning_is_a_positive_whole_number(binning: str) -> None:
    found = row("ALIGN_ANGPIX", ANGPIX="3.37", BINNING_FACTOR=binning)
    assert found.computed == "" and "positive whole number" in found.problem
    assert [each.name for each in findings({"BINNING_FACTOR": binning})] == ["BINNING_FACTOR"]


@pytest.mark.parametrize(("diameter", "box"), [("320", "32"), ("150", "16")])
def test_tm_box_size(diameter: str, box: str) -> None:
    assert derived("TM_BOX_SIZE", DIAMETER=diameter, ALIGN_ANGPIX="13.48") == box


def test_a_box_that_fits_exactly_does_not_grow() -> None:
    assert derived("TM_BOX_SIZE", DIAMETER="2.4", ALIGN_ANGPIX="0.1") == "32"


@pytest.mark.parametrize(("angpix", "box", "offers"), [("4.2", "102", ("112",)), ("2.5", "172", ("176",))])
def test_subtomo_box_size(angpix: str, box: str, offers: tuple[str, ...]) -> None:
    found = row("SUBTOMO_BOX_SIZE", DIAMETER="320", OUTPUT_ANGPIX=angpix)
    assert (found.computed, found.offers) == (box, offers)


def test_mask_radius() -> None:
    assert derived("MASK_RADIUS", DIAMETER="320", ALIGN_ANGPIX="13.48") == "12"


def test_the_whole_chain_from_what_a_lab_states() -> None:
    rows = derived_rows({"ANGPIX": "3.37", "BINNING_FACTOR": "4", "DIAMETER": "320", "OUTPUT_ANGPIX": "4.2"})
    assert {each.rule.name: each.computed for each in rows} == {
        "ALIGN_ANGPIX": "13.48",
        "TM_BOX_SIZE": "32",
        "SUBTOMO_BOX_SIZE": "102",
        "MASK_RADIUS": "12",
        "TRAINING_ANGPIX": "4.2",
        "POSE_APIX": "4.2",
    }


def test_an_override_is_flagged_and_counts_further_down() -> None:
    values = {"ANGPIX": "3.37", "BINNING_FACTOR": "4", "ALIGN_ANGPIX": "10", "DIAMETER": "320"}
    assert row("ALIGN_ANGPIX", **values).overridden
    assert derived("TM_BOX_SIZE", **values) == "44"


@pytest.mark.parametrize("stated", ["", "13.480000", "13.48"])
def test_the_same_value_is_no_override(stated: str) -> None:
    assert not row("ALIGN_ANGPIX", ANGPIX="3.37", BINNING_FACTOR="4", ALIGN_ANGPIX=stated).overridden


def test_templateres_is_about_what_is_derived() -> None:
    values = {"SUBTOMO_BOX_SIZE": "102", "DOWNSAMPLE_FRAC": "0.9"}
    assert derived("TEMPLATERES", **values) == "124"  # 122.4, up to an even number
    assert not row("TEMPLATERES", **values, TEMPLATERES="128").overridden
    assert row("TEMPLATERES", **values, TEMPLATERES="192").overridden


@pytest.mark.parametrize(
    ("size", "binning", "vol_z", "align_z"),
    [("1200", "4", "300", "120"), ("600", "4", "200", "80"), ("1003", "4", "250", "100"), ("400", "1", "400", "160")],
)
def test_aretomo(size: str, binning: str, vol_z: str, align_z: str) -> None:
    assert derived("VOL_Z", TOMO_DIM_Z=size, BINNING_FACTOR=binning) == vol_z
    assert derived("ALIGN_Z", TOMO_DIM_Z=size, BINNING_FACTOR=binning) == align_z


def test_training_and_poses_never_take_angpix() -> None:
    values = {"ANGPIX": "3.37", "OUTPUT_ANGPIX": "4.2"}
    assert derived("TRAINING_ANGPIX", **values) == derived("POSE_APIX", **values) == "4.2"


def test_what_is_missing_is_named() -> None:
    assert row("ALIGN_ANGPIX", ANGPIX="", BINNING_FACTOR="4").problem == "ANGPIX has no value yet"
    assert row("ALIGN_ANGPIX", ANGPIX="x", BINNING_FACTOR="4").problem == "ANGPIX is no number"
    assert row("ALIGN_ANGPIX", ANGPIX="0", BINNING_FACTOR="4").problem == "ANGPIX must be above 0"


def test_a_conf_of_other_names_has_nothing_derived() -> None:
    assert derived_rows({"PIXEL_SIZE_ANGSTROM": "10"}) == []


def refused(**values: str) -> list[str]:
    return [each.name for each in findings(values) if each.refused]


def test_a_finer_output_than_the_data_is_refused() -> None:
    assert refused(ANGPIX="3.37", OUTPUT_ANGPIX="3.36") == ["OUTPUT_ANGPIX"]
    assert refused(ANGPIX="3.37", OUTPUT_ANGPIX="3.37") == []


def test_a_ctf_range_beyond_nyquist_is_refused_and_says_which_way_it_goes() -> None:
    found = findings({"ANGPIX": "3.37", "CTF_RANGE_MAX": "6.73"})
    assert [each.name for each in found] == ["CTF_RANGE_MAX"] and "coarser" in found[0].message
    assert refused(ANGPIX="3.37", CTF_RANGE_MAX="6.74") == []


def test_the_mask_must_fit_its_box() -> None:
    assert refused(MASK_RADIUS="12", MASK_SIGMA="3", TM_BOX_SIZE="32") == []
    assert refused(MASK_RADIUS="12", MASK_SIGMA="4", TM_BOX_SIZE="32") == ["MASK_RADIUS"]
    assert refused(MASK_RADIUS="13", MASK_SIGMA="3", TM_BOX_SIZE="33") == ["MASK_RADIUS"]


def test_derived_values_are_checked_too() -> None:
    values = {"ANGPIX": "3.37", "BINNING_FACTOR": "4", "DIAMETER": "320", "MASK_SIGMA": "4"}
    assert refused(**values) == ["MASK_RADIUS"]


def test_the_radius_of_extraction_is_meant_to_be_larger() -> None:
    found = findings({"EXTRACT_MASK_RADIUS": "12", "MASK_RADIUS": "12"})
    assert [(each.name, each.refused) for each in found] == [("EXTRACT_MASK_RADIUS", False)]
    assert findings({"EXTRACT_MASK_RADIUS": "14", "MASK_RADIUS": "12"}) == []


def tilts(*angles: str) -> list[Fraction]:
    return read_tilts("\n".join(angles))


def test_the_missing_wedge_has_true_extremes_never_swapped() -> None:
    assert missing_wedge(tilts("-40", "0", "60")) == (30, 50)
    assert missing_wedge(tilts("-60.01", "-0.01", "59.98")) == (30, 30)
    assert missing_wedge(tilts("10", "50")) == (40, 80)


def test_halves_go_to_the_even_degree() -> None:
    assert missing_wedge(tilts("-45.5", "44.5")) == (46, 44)


def test_without_tilts_the_wedge_is_40_and_50() -> None:
    assert missing_wedge([]) == (40, 50)


def test_the_tilt_step_is_the_smallest_that_is_not_zero() -> None:
    assert tilt_step(tilts("3", "0", "0", "-2", "6")) == 2
    assert tilt_step(tilts("1", "1")) is None


def test_a_line_that_is_no_angle_is_named() -> None:
    with pytest.raises(ValueError, match="line 2: 'nan'"):
        read_tilts("1\nnan\n")


def test_numbers_beyond_all_measure_are_none() -> None:
    assert exact("1e999999999") is None


def test_two_species_that_export_into_one_folder_are_found() -> None:
    work = {"WORK_DIR": "/data/run"}
    values = {
        "a": work | {"DATADIR": "subtomo"},
        "b": work | {"DATADIR": "/data/run/./subtomo/"},
        "c": work | {"DATADIR": "subtomo_c"},
        "d": work,
    }
    assert shared_folders(values) == {"/data/run/subtomo": ["a", "b"]}
