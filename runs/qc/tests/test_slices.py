from __future__ import annotations

import json

import numpy as np
import pytest

from runs.qc.residuals import read_residuals
from runs.qc.tests.scenes import particles
from runs.qc.verdicts import judge


def _smeared(seed):
    """The particles are gone, the noise has stayed."""
    return np.random.default_rng(seed).normal(0, 0.5, (32, 64, 64)).astype(np.float32)


@pytest.fixture
def four(write_mrc):
    return [
        write_mrc(f"TS_00{number}_10.00Apx.mrc", _smeared(3) if number == 3 else particles(seed=number))
        for number in (1, 2, 3, 4)
    ]


def test_the_spoilt_series_stands_out(render, four):
    code, index, _ = render("slices", *four)
    assert code == 0
    series = index["figures"]["series"]
    assert list(series) == ["TS_001", "TS_002", "TS_003", "TS_004"]
    assert [series[name]["verdict"] == "good" for name in series] == [True, True, False, True]
    assert "contrast" in series["TS_003"]["reason"]
    assert series["TS_001"]["dims"] == [64, 64, 32]
    assert series["TS_001"]["pixel_size_angstrom"] == 10.0


def test_evidence_is_sorted_grouped_and_captioned(render, four, tmp_path):
    _, index, _ = render("slices", *four[:1], "--n-slices", 8)
    names = [entry["name"] for entry in index["evidence"]]
    assert names == ["TS_001/central", *(f"TS_001/xy/{n:03d}" for n in range(1, 9)), "metrics"]
    stack = [entry for entry in index["evidence"] if entry["kind"] == "stack"]
    assert [entry["index"] for entry in stack] == list(range(1, 9))
    assert {entry["group"] for entry in stack} == {"TS_001/xy"}
    assert stack[0]["caption"] == "XY, slice 1 of 32, mean of 4 slices, 10 Å/px"
    assert (tmp_path / "out" / "metrics.tsv").read_text().splitlines()[1].startswith("TS_001\tgood\t64x64x32\t10")
    assert not list((tmp_path / "out").glob(".*"))


def test_the_figures_are_those_of_the_voxels(render, write_mrc):
    values = particles(seed=7)
    _, index, _ = render("slices", write_mrc("A.mrc", values))
    figures = index["figures"]["series"]["A"]
    for key, value in {"mean": values.mean(), "std": values.std(), "min": values.min(), "max": values.max()}.items():
        assert figures[key] == pytest.approx(float(value), rel=1e-4, abs=1e-6)


def test_a_bad_tomogram_does_not_stop_the_others(render, four):
    four[1].write_bytes(four[1].read_bytes()[:5000])
    code, index, stderr = render("slices", *four, four[0].parent / "TS_009.mrc")
    series = index["figures"]["series"]
    assert code == 0
    assert "is truncated" in series["TS_002"]["error"]
    assert "No such file" in series["TS_009"]["error"]
    assert series["TS_001"]["verdict"] == "good"
    assert any("TS_002" in warning for warning in index["warnings"])
    assert "Traceback" not in stderr


def test_nothing_to_render_is_exit_2_and_one_sentence(render, tmp_path):
    bad = tmp_path / "x.mrc"
    bad.write_text("no")
    code, _, stderr = render("slices", bad)
    assert code == 2
    assert len(stderr.strip().splitlines()) == 1
    assert str(bad) in stderr
    assert not (tmp_path / "out" / "index.json").exists()


@pytest.mark.parametrize(
    ("spoil", "verdict", "words"),
    [
        (lambda v: v * 0, "bad", "blank: every voxel is 0"),
        (lambda v: 1000 + v * 1e-9, "bad", ""),
        (lambda v: np.where(np.arange(32)[:, None, None] < 20, 0, v), "bad", "20 of 32 slices are empty"),
        (lambda v: np.where(np.arange(32)[:, None, None] < 5, 0, v), "suspect", "5 of 32 slices are empty"),
        (lambda v: np.where(v > v.max() * 0.99, np.nan, v), "bad", "voxels are not finite"),
        (lambda v: v + 20 * np.sin(np.arange(64) * 1.3)[None, None, :], "suspect", "streaks"),
    ],
)
def test_absolute_rules(render, write_mrc, spoil, verdict, words):
    path = write_mrc("A.mrc", spoil(particles(seed=2)).astype(np.float32))
    _, index, _ = render("slices", path, "--n-slices", 4)
    assert index["figures"]["series"]["A"]["verdict"] == verdict
    assert words in index["figures"]["series"]["A"]["reason"]


def test_all_nan_is_an_error(render, write_mrc):
    code, _, stderr = render("slices", write_mrc("A.mrc", np.full((4, 8, 8), np.nan, np.float32)))
    assert code == 2
    assert "holds no finite voxel" in stderr


@pytest.mark.parametrize("shape", [(1, 64, 64), (1, 1, 1), (3, 5, 200), (40, 1, 30), (300, 8, 8)])
def test_odd_shapes_are_drawn(render, write_mrc, shape):
    values = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    code, index, _ = render("slices", write_mrc("A.mrc", values), "--n-slices", 3)
    assert code == 0
    assert index["figures"]["series"]["A"]["dims"] == list(shape[::-1])


def test_a_stack_of_noise_stays_small(render, write_mrc, tmp_path):
    values = np.random.default_rng(0).normal(size=(40, 600, 600)).astype(np.float32)
    _, index, _ = render("slices", write_mrc("A.mrc", values))
    assert sum((tmp_path / "out" / entry["file"]).stat().st_size for entry in index["evidence"]) < 1.5e6


def test_names_that_are_awkward_stay_apart(render, four, tmp_path):
    awkward = tmp_path / 'my "series"; rm -rf ü 1.mrc'
    four[0].rename(awkward)
    other = tmp_path / "b" / four[1].name
    other.parent.mkdir()
    other.write_bytes(four[1].read_bytes())
    _, index, _ = render("slices", awkward, four[1], other, "--n-slices", 2)
    assert list(index["figures"]["series"]) == ["TS_002", "TS_002_2", 'my "series"; rm -rf ü 1']
    files = [entry["file"] for entry in index["evidence"]]
    assert len(set(files)) == len(files)
    assert all("/" not in file and " " not in file for file in files)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("r.json", '{"TS_001": 0.4, "TS_002_ali": {"residual_px": 9.0}}'),
        ("r.json", '{"series": {"TS_001": {"residual_px": 0.4}, "TS_002": {"residual_px": 9.0}}}'),
        ("r.tsv", "TS\tresidual_px\nTS_001\t0.4\nTS_002.mrc\t9.0\n"),
    ],
)
def test_residuals_are_read(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    assert read_residuals(tmp_path / name) == {"TS_001": 0.4, "TS_002": 9.0}


def test_a_high_residual_is_bad(render, four, tmp_path):
    residuals = tmp_path / "r.json"
    residuals.write_text(json.dumps({"TS_001": 0.5, "TS_002": 0.6, "TS_003": 0.5, "TS_004": 7.5}))
    _, index, _ = render("slices", *four, "--residuals", residuals, "--n-slices", 2)
    figures = index["figures"]["series"]["TS_004"]
    assert figures["residual_px"] == 7.5
    assert figures["verdict"] == "bad"
    assert "alignment residual 7.50 px, limit 3" in figures["reason"]


def test_two_rules_about_one_figure_count_once():
    usual = {"dims": [64, 64, 32], "std": 1.0, "min": -3.0, "max": 3.0, "not_finite": 0, "constant_slices": 0}
    usual |= {"contrast_db": 10.0, "streak_index": 1.2, "residual_px": 2.8}
    finding = judge({name: dict(usual) for name in "abc"} | {"d": usual | {"residual_px": 3.7}}, max_residual_px=3)["d"]
    assert (finding.level, finding.reason) == ("suspect", "alignment residual 3.70 px, limit 3")
    both = judge(
        {name: dict(usual) for name in "abc"} | {"d": usual | {"residual_px": 3.7, "dims": [9, 9, 32]}},
        max_residual_px=3,
    )
    assert both["d"].level == "bad"


def test_residuals_without_their_column_are_a_warning(render, four, tmp_path):
    residuals = tmp_path / "r.tsv"
    residuals.write_text("TS\tdims\nTS_001\t3\n")
    code, index, _ = render("slices", four[0], "--residuals", residuals, "--n-slices", 2)
    assert code == 0
    assert "has no column residual_px" in index["warnings"][0]


def test_real_std_values_of_ten_good_series_stay_good(realdata):
    lines = (realdata / "opus-et-agent" / "demo_qc" / "gate1_alignment" / "gate1_metrics.tsv").read_text().splitlines()
    series = {}
    for line in lines[1:]:
        name, dims, mean, std, low, high, _ = line.split("\t")
        series[name] = {
            "dims": [int(part) for part in dims.split("x")],
            "std": float(std),
            "min": float(low),
            "max": float(high),
            "mean": float(mean),
            "not_finite": 0,
            "constant_slices": 0,
            "contrast_db": None,
            "streak_index": None,
        }
    assert {finding.level for finding in judge(series, max_residual_px=3).values()} == {"good"}
    series["TS_041"]["dims"] = [480, 464, 500]
    assert judge(series, max_residual_px=3)["TS_041"].level == "suspect"


def test_a_real_tomogram_is_rendered(render, realdata):
    code, index, _ = render("slices", realdata / "derived" / "13pf_MT.mrc", "--n-slices", 4)
    assert code == 0
    assert index["figures"]["series"]["13pf_MT"]["dims"] == [94, 206, 36]
