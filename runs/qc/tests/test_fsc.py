from __future__ import annotations

import numpy as np
import pytest

from runs.qc.fsc import compute_curves
from runs.qc.resolution import correct, first_crossing, randomisation_shell, randomise_phases, shells


@pytest.fixture
def ribosome(realdata):
    path = realdata / "opus-et-agent" / "demo_qc" / "gate4_resolution" / "ribo_fsc_corrected.tsv"
    return np.genfromtxt(path, names=True)


@pytest.fixture
def postprocess(realdata):
    import starfile

    table = starfile.read(realdata / "starfile" / "postprocess.star", always_dict=True)["fsc"]
    prefix = "rlnFourierShellCorrelation"
    return {
        "frequency": 1 / table.rlnAngstromResolution.to_numpy(),
        "corrected": table[f"{prefix}Corrected"].to_numpy(),
        "unmasked": table[f"{prefix}UnmaskedMaps"].to_numpy(),
        "masked": table[f"{prefix}MaskedMaps"].to_numpy(),
        "randomised": table.rlnCorrectedFourierShellCorrelationPhaseRandomizedMaskedMaps.to_numpy(),
    }


@pytest.mark.parametrize(
    ("column", "threshold", "angstrom"),
    [
        ("fsc", 0.143, 16.687),
        ("fsc_corrected", 0.143, 18.261),
        ("fsc", 0.5, 19.519),
        ("fsc_corrected", 0.5, 23.392),
    ],
)
def test_first_crossing_of_a_published_curve_that_rises_again(ribosome, column, threshold, angstrom):
    crossing = first_crossing(ribosome["freq_cyc_per_px"] / 4.2, ribosome[column], threshold)
    assert crossing.resolution == pytest.approx(angstrom, abs=6e-4)
    assert (crossing.rises_to is not None) == (threshold == 0.143)


def test_crossings_of_a_relion_postprocess(postprocess):
    corrected = first_crossing(postprocess["frequency"], postprocess["corrected"], 0.143)
    assert corrected.resolution == pytest.approx(16.106, abs=6e-4)
    unmasked = first_crossing(postprocess["frequency"], postprocess["unmasked"], 0.143)
    assert unmasked.resolution == pytest.approx(26.55, abs=6e-3)


def test_the_correction_is_that_of_relion(postprocess):
    start = randomisation_shell(postprocess["unmasked"])
    assert start == 22
    mine = correct(postprocess["masked"], postprocess["randomised"], randomised_from=start)
    assert mine == pytest.approx(postprocess["corrected"], abs=2e-6)


@pytest.mark.parametrize(("species", "angstrom", "rows"), [("Ribosome", 7.763, 94), ("FAS", 13.884, 79)])
def test_crossings_of_two_species_in_one_file(realdata, species, angstrom, rows):
    text = (realdata / "opus-et-agent" / "demo_qc" / "finale" / "m_refined_fsc.tsv").read_text()
    lines = [line.split("\t") for line in text.splitlines() if line.startswith(species)]
    assert len(lines) == rows
    resolution, fsc = np.array([[float(value) for value in line[1:]] for line in lines]).T
    assert first_crossing(1 / resolution, fsc, 0.143).resolution == pytest.approx(angstrom, abs=6e-4)


def test_crossing_of_simple_curves():
    frequency = np.array([0.0, 0.1, 0.2, 0.3])
    assert first_crossing(frequency, np.array([1, 1, 0.5, 0.0]), 0.25).frequency == pytest.approx(0.25)
    stays = first_crossing(frequency, np.ones(4), 0.143)
    assert (stays.crosses, stays.frequency) == (False, 0.3)
    assert first_crossing(frequency, np.array([1, np.nan, 0.5, 0.0]), 0.25).frequency == pytest.approx(0.25)
    flicker = first_crossing(frequency, np.array([1, 0.1, 0.17, 0.0]), 0.143)
    assert flicker.rises_to is None


def test_shells_and_weights_count_the_whole_transform():
    for box in (8, 9):
        shell, weight = shells(box)
        full = np.fft.fftfreq(box, 1 / box)
        radius = np.round(np.sqrt(full[:, None, None] ** 2 + full[None, :, None] ** 2 + full[None, None, :] ** 2))
        expected = np.bincount(radius.astype(int).ravel())
        assert np.array_equal(np.bincount(shell.ravel(), weight.ravel()), expected)


def test_randomised_phases_keep_amplitudes_and_low_shells():
    values = np.random.default_rng(0).normal(size=(16, 16, 16))
    transform = np.fft.rfftn(values)
    shell, _ = shells(16)
    scrambled = randomise_phases(transform, shell, randomised_from=4, generator=np.random.default_rng(1))
    back = np.fft.rfftn(np.fft.irfftn(scrambled, s=values.shape, axes=(0, 1, 2)))
    assert np.abs(back) == pytest.approx(np.abs(transform), rel=1e-4, abs=1e-6)
    assert np.array_equal(scrambled[shell < 4], transform[shell < 4])
    assert np.abs(scrambled - transform)[shell > 4].mean() > np.abs(transform).mean() / 2


def _halves(noise, *, shared_noise=0.0, box=48):
    """A cloud of atoms inside 16 px, low-passed, twice with noise of its own."""
    from scipy import ndimage

    generator = np.random.default_rng(4)
    cloud = np.zeros((box, box, box), np.float32)
    centres = np.clip(generator.normal(box / 2, 4, (400, 3)).round().astype(int), 10, box - 11)
    np.add.at(cloud, tuple(centres.T), 1)
    cloud = ndimage.gaussian_filter(cloud, 1.2) * 10
    cloud += shared_noise * generator.normal(size=cloud.shape)
    return [(cloud + noise * generator.normal(size=cloud.shape)).astype(np.float32) for _ in range(2)]


def _mask(box=48, radius=16, edge=6):
    axis = np.arange(box) - box / 2
    distance = np.sqrt(axis[:, None, None] ** 2 + axis[None, :, None] ** 2 + axis[None, None, :] ** 2)
    return (0.5 + 0.5 * np.cos(np.pi * np.clip((distance - radius) / edge, 0, 1))).astype(np.float32)


def test_white_noise_does_not_correlate():
    halves = np.random.default_rng(0).normal(size=(2, 48, 48, 48)).astype(np.float32)
    curves = compute_curves(halves[0], halves[1], None, 4.0, None)
    assert np.abs(curves.unmasked[6:]).max() < 0.15
    assert curves.frequency[-1] == pytest.approx(1 / 8)


def test_correction_takes_the_correlation_of_a_tight_mask_away():
    generator = np.random.default_rng(0)
    halves = generator.normal(size=(2, 48, 48, 48)).astype(np.float32) + 1.0
    hard = (_mask(radius=8, edge=1) > 0.5).astype(np.float32)
    curves = compute_curves(halves[0], halves[1], hard, 4.0, 40.0)
    assert np.abs(curves.corrected[8:]).mean() < np.abs(curves.masked[1:6]).mean()
    assert np.abs(curves.corrected[10:]).mean() < 0.15


def test_more_noise_means_less_resolution(render, write_mrc):
    found = []
    for noise in (0.3, 1.0, 3.0):
        paths = [write_mrc(f"h{n}.mrc", half, 4.0) for n, half in enumerate(_halves(noise))]
        code, index, _ = render(
            "fsc", "--half1", paths[0], "--half2", paths[1], "--mask", write_mrc("m.mrc", _mask(), 4.0)
        )
        assert code == 0
        found.append(index["figures"]["resolution_angstrom"])
    assert 8.0 <= found[0] < found[1] < found[2]


def test_figures_table_and_determinism(render, write_mrc, tmp_path):
    paths = [write_mrc(f"h{n}.mrc", half, 4.0) for n, half in enumerate(_halves(1.0))]
    arguments = ["--half1", paths[0], "--half2", paths[1], "--mask", write_mrc("m.mrc", _mask(), 4.0)]
    _, first, _ = render("fsc", *arguments, "--label", "ribosome")
    _, second, _ = render("fsc", *arguments, "--label", "ribosome", out=tmp_path / "again")
    assert first == second
    figures = first["figures"]
    assert (figures["curve"], figures["box_px"], figures["shells"], figures["nyquist_angstrom"]) == (
        "corrected", 48, 25, 8.0,
    )  # fmt: skip
    for name in ("fsc_1-curve.png", "fsc_2-table.tsv"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()
    table = np.genfromtxt(tmp_path / "out" / "fsc_2-table.tsv", names=True)
    crossing = first_crossing(table["frequency_per_angstrom"], table["fsc_corrected"], 0.143)
    assert crossing.resolution == pytest.approx(figures["resolution_angstrom"], rel=1e-4)
    assert {entry["item"] for entry in first["evidence"]} == {"ribosome"}


def test_without_a_mask_and_with_a_bad_one(render, write_mrc):
    paths = [write_mrc(f"h{n}.mrc", half, 4.0) for n, half in enumerate(_halves(1.0))]
    arguments = ["--half1", paths[0], "--half2", paths[1]]
    _, index, _ = render("fsc", *arguments)
    assert index["figures"]["curve"] == "unmasked"
    assert "no mask was given" in index["warnings"][0]
    small = write_mrc("small.mrc", np.ones((4, 4, 4), np.float32))
    _, index, _ = render("fsc", *arguments, "--mask", small)
    assert "half-maps have a box of 48" in index["figures"]["mask"]["error"]


def test_the_same_map_twice_is_spoken_of(render, write_mrc):
    path = write_mrc("h.mrc", _halves(1.0)[0], 4.0)
    _, index, _ = render("fsc", "--half1", path, "--half2", path)
    assert index["figures"]["reaches_nyquist"] is True
    assert index["figures"]["resolution_angstrom"] == 8.0
    assert any("hold the same map" in warning for warning in index["warnings"])


def test_an_unknown_pixel_size_leaves_px(render, write_mrc):
    paths = [write_mrc(f"h{n}.mrc", half, 0.0) for n, half in enumerate(_halves(1.0))]
    _, index, _ = render("fsc", "--half1", paths[0], "--half2", paths[1])
    assert index["figures"]["resolution_angstrom"] is None
    assert index["figures"]["resolution_px"] > 2


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (np.ones((48, 48, 48)), "is blank: every voxel is 1"),
        (np.zeros((48, 48, 40)), "needs cubic half-maps"),
        (np.random.default_rng(0).normal(size=(32, 32, 32)), "has a box of 48 px"),
        (np.full((48, 48, 48), np.nan), "not finite"),
    ],
)
def test_half_maps_that_cannot_be_compared(render, write_mrc, values, words):
    good, bad = write_mrc("h1.mrc", _halves(1.0)[0]), write_mrc("h2.mrc", values.astype(np.float32))
    code, _, stderr = render("fsc", "--half1", good, "--half2", bad)
    assert code == 2
    assert words in stderr
    assert str(bad) in stderr
    assert len(stderr.strip().splitlines()) == 1


def test_randomise_from_is_checked(render, write_mrc):
    path = write_mrc("h.mrc", _halves(1.0)[0])
    code, _, stderr = render("fsc", "--half1", path, "--half2", path, "--randomise-from", "soon")
    assert code == 2
    assert "neither auto nor a resolution" in stderr
