from __future__ import annotations

import numpy as np
import pytest


def _distance(box):
    axis = np.arange(box) - box // 2
    return np.sqrt(axis[:, None, None] ** 2 + axis[None, :, None] ** 2 + axis[None, None, :] ** 2)


def _ball(radius, edge=0.0, box=48):
    if edge == 0:
        return (_distance(box) <= radius).astype(np.float32)
    return np.clip(0.5 + (radius - _distance(box)) / edge, 0, 1).astype(np.float32)


def _density(box=48):
    return (_ball(8, box=box) + 0.05 * np.random.default_rng(0).normal(size=(box, box, box))).astype(np.float32)


def test_mask_figures_of_a_ball(render, write_mrc):
    _, index, _ = render("mask", "--map", write_mrc("a.mrc", _density()), "--mask", write_mrc("m.mrc", _ball(14, 6)))
    figures = index["figures"]
    assert figures["volume_fraction"] == pytest.approx(4 / 3 * np.pi * 14**3 / 48**3, rel=0.02)
    assert figures["edge_width_px"] == pytest.approx(6, rel=0.1)
    assert figures["density_inside"] > 0.97
    assert figures["touches_edge"] is False
    assert index["warnings"] == []


def test_a_mask_too_tight_hard_and_cut_is_spoken_of(render, write_mrc):
    tight = np.roll(_ball(6), 20, axis=0)
    _, index, _ = render("mask", "--map", write_mrc("a.mrc", _density()), "--mask", write_mrc("m.mrc", tight))
    assert index["figures"]["density_inside"] < 0.1
    assert index["figures"]["touches_edge"] is True
    assert index["figures"]["edge_width_px"] == 0
    assert len(index["warnings"]) == 2


def test_dark_density_is_recognised(render, write_mrc):
    _, index, _ = render("mask", "--map", write_mrc("a.mrc", -_density()), "--mask", write_mrc("m.mrc", _ball(9, 4)))
    assert index["figures"]["dark_density"] is True
    assert index["figures"]["density_inside"] > 0.8


@pytest.mark.parametrize(
    ("mask", "words"),
    [(np.zeros((48, 48, 48)), "masks nothing"), (np.ones((8, 8, 8)), "they must be alike")],
)
def test_masks_that_cannot_be_used(render, write_mrc, mask, words):
    path = write_mrc("m.mrc", mask.astype(np.float32))
    code, _, stderr = render("mask", "--map", write_mrc("a.mrc", _density()), "--mask", path)
    assert code == 2
    assert words in stderr


def test_a_mask_of_everything_is_drawn(render, write_mrc):
    everything = write_mrc("m.mrc", np.ones((48, 48, 48), np.float32))
    code, index, _ = render("mask", "--map", write_mrc("a.mrc", _density()), "--mask", everything)
    assert code == 0
    assert index["figures"]["volume_fraction"] == 1


def test_averages_go_on_without_a_bad_one(render, write_mrc, tmp_path):
    good, flat = write_mrc("a.mrc", _density()), write_mrc("b.mrc", np.ones((8, 8, 8), np.float32))
    code, index, _ = render("averages", "--map", good, "--map2", flat, "--map2", good, "--map2", tmp_path / "none.mrc")
    assert code == 0
    assert [entry["name"] for entry in index["evidence"]] == [
        "averages/a-2/1-sections",
        "averages/a-2/2-projections",
        "averages/a/1-sections",
        "averages/a/2-projections",
    ]
    assert "is blank" in index["figures"]["maps"]["b"]["error"]
    assert "No such file" in index["figures"]["maps"]["none"]["error"]
    assert index["figures"]["maps"]["a"]["dims"] == [48, 48, 48]


def test_averages_of_real_maps(render, realdata):
    maps = [
        realdata / "mrcfile" / "EMD-3197.map",
        realdata / "tomodrgn" / "warptools_test_box-32_angpix-12_reconstruct.mrc",
    ]
    code, index, _ = render("averages", "--map", maps[0], "--map2", maps[1])
    assert code == 0
    assert index["figures"]["maps"]["EMD-3197"]["pixel_size_angstrom"] == 11.4


def test_a_flat_map_and_mask_are_drawn(render, write_mrc):
    values = _density()[24:25]
    code, _, _ = render("mask", "--map", write_mrc("a.mrc", values), "--mask", write_mrc("m.mrc", _ball(9, 4)[24:25]))
    assert code == 0
    code, _, _ = render("averages", "--map", write_mrc("a.mrc", values.transpose(1, 0, 2)))
    assert code == 0
