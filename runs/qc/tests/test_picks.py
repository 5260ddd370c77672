from __future__ import annotations

import numpy as np
import pytest

from runs.qc.errors import BadInput
from runs.qc.stars import Picks, match, read_picks, spacing_radius
from runs.qc.tests.scenes import particles
from runs.qc.thresholds import suggest_threshold

TRUE = np.array([[10.0, 10, 10], [30, 10, 10], [50, 40, 20], [20, 50, 16]])


@pytest.fixture
def write_star(tmp_path):
    import pandas as pd
    import starfile

    def write(name, xyz, scores=None, series="TS_001", **columns):
        xyz = np.asarray(xyz, dtype=float)
        table = {f"rlnCoordinate{axis}": xyz[:, k] for k, axis in enumerate("XYZ")}
        if series:
            table["rlnTomoName"] = series
        if scores is not None:
            table["rlnLCCmax"] = scores
        starfile.write(pd.DataFrame(table | columns), tmp_path / name, overwrite=True)
        return tmp_path / name

    return write


def _picks(xyz, scores=None):
    scores = None if scores is None else np.array(scores)
    return Picks(series="a", xyz=np.array(xyz, dtype=float), scores=scores, path=None)


def test_a_true_place_is_hit_once_by_the_better_pick():
    hits = match(_picks([[10, 10, 11], [10, 10, 10]], [0.3, 0.9]), _picks(TRUE), radius_px=3)
    assert hits.tolist() == [False, True]


def test_a_pick_beyond_half_a_diameter_is_no_hit():
    hits = match(_picks([[10, 10, 13.1], [30, 10, 13]], [0.9, 0.8]), _picks(TRUE), radius_px=3)
    assert hits.tolist() == [False, True]


def test_without_scores_the_nearest_comes_first():
    assert match(_picks([[10, 10, 12], [10, 10, 10]]), _picks(TRUE), radius_px=3).tolist() == [False, True]


def test_raising_the_threshold_never_turns_a_hit_into_a_miss():
    generator = np.random.default_rng(0)
    truth, picks = _picks(generator.uniform(0, 40, (40, 3))), _picks(generator.uniform(0, 40, (90, 3)))
    picks = _picks(picks.xyz, generator.uniform(size=90))
    hits = match(picks, truth, radius_px=6)
    for cut in (0.2, 0.5, 0.8):
        assert np.array_equal(match(picks.above(cut), truth, radius_px=6), hits[picks.scores >= cut])


def test_spacing_radius_is_half_the_smallest_distance():
    assert spacing_radius([_picks(TRUE), _picks([[0, 0, 0], [0, 0, 6]])]) == 3
    assert spacing_radius([_picks([[1, 2, 3]])]) is None


def test_picks_are_split_by_tomogram(write_star):
    path = write_star("all.star", TRUE, [1, 2, 3, 4], series=["TS_1.tomostar", "TS_2", "TS_1", "TS_2"])
    assert [(picks.series, len(picks)) for picks in read_picks(path)] == [("TS_1", 2), ("TS_2", 2)]


def test_the_file_names_the_series_where_the_table_does_not(write_star):
    assert read_picks(write_star("TS_007_picks.star", TRUE, series=None))[0].series == "TS_007"


def test_a_real_export_is_read(realdata):
    picks = read_picks(realdata / "tomodrgn" / "warptools_test_4-tomos_10-ptcls_box-32_angpix-12.star")
    assert [len(each) for each in picks] == [10, 10, 10, 10]
    assert "Unt_083" in {each.series for each in picks}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("data_\n\nloop_\n_rlnCoordinateX #1\n_rlnCoordinateY #2\n1 2\n", "has no column rlnCoordinateZ"),
        ("nothing here", "has no column"),
        ("\x00\xff\xfe", "star"),
        (
            "data_\n\nloop_\n_rlnCoordinateX #1\n_rlnCoordinateY #2\n_rlnCoordinateZ #3\n1 2 x\n",
            "column rlnCoordinateZ",
        ),
        ("data_\n\nloop_\n_rlnCoordinateX #1\n_rlnCoordinateY #2\n_rlnCoordinateZ #3\n1 2 nan\n", "not finite"),
    ],
)
def test_a_bad_star_file_is_named(tmp_path, text, words):
    path = tmp_path / "bad.star"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(BadInput) as caught:
        read_picks(path)
    assert words in str(caught.value)
    assert str(path) in str(caught.value)


def test_overlay_with_truth(render, write_mrc, write_star):
    tomogram = write_mrc("TS_001_10.00Apx.mrc", particles())
    picks = write_star("p.star", np.vstack([TRUE[:3] + 0.5, [[60, 60, 30]], [[5, 60, 5]]]), [0.9, 0.8, 0.7, 0.6, 0.1])
    arguments = ["--tomogram", tomogram, "--picks", picks, "--truth", write_star("t.star", TRUE)]
    code, index, _ = render("picks", *arguments, "--diameter-angstrom", 80, "--min-score", 0.5)
    assert code == 0
    figures = index["figures"]
    assert (figures["n_picks"], figures["n_above"], figures["series"]) == (5, 4, "TS_001")
    assert figures["truth"]["precision"] == 0.75
    assert figures["truth"]["recall"] == 0.75
    assert figures["truth"]["f1"] == 0.75
    assert figures["score_quantiles"]["0.5"] == 0.7
    assert [entry["name"] for entry in index["evidence"]] == ["TS_001/picks/xy", "TS_001/picks/xz"]


def test_overlay_of_no_picks_and_no_scores(render, write_mrc, write_star):
    tomogram = write_mrc("TS_001.mrc", particles())
    picks = write_star("p.star", TRUE, [0.1, 0.1, 0.2, 0.2])
    code, index, _ = render("picks", "--tomogram", tomogram, "--picks", picks, "--min-score", 0.5)
    assert code == 0
    assert index["figures"]["n_above"] == 0
    code, index, _ = render(
        "picks", "--tomogram", tomogram, "--picks", write_star("q.star", TRUE), "--min-score", 0.5, "--truth", picks
    )
    assert index["figures"]["n_above"] == 4
    assert any("no score column" in warning for warning in index["warnings"])


def test_an_unreadable_truth_is_a_warning(render, write_mrc, write_star, tmp_path):
    tomogram, picks = write_mrc("TS_001.mrc", particles()), write_star("p.star", TRUE, [1, 2, 3, 4])
    code, index, _ = render("picks", "--tomogram", tomogram, "--picks", picks, "--truth", tmp_path / "none.star")
    assert code == 0
    assert "is not there" in index["figures"]["truth"]["error"]


def test_fractions_and_places_outside_are_spoken_of(render, write_mrc, write_star):
    tomogram = write_mrc("TS_001.mrc", particles())
    _, index, _ = render("picks", "--tomogram", tomogram, "--picks", write_star("f.star", TRUE / 100, [1, 2, 3, 4]))
    assert any("fractions" in warning for warning in index["warnings"])
    _, index, _ = render("picks", "--tomogram", tomogram, "--picks", write_star("o.star", TRUE * 10, [1, 2, 3, 4]))
    assert any("lie outside" in warning for warning in index["warnings"])


def test_picks_of_another_tomogram_are_refused(render, write_mrc, write_star):
    picks = write_star("p.star", TRUE, series=["TS_8", "TS_8", "TS_9", "TS_9"])
    code, _, stderr = render("picks", "--tomogram", write_mrc("TS_001.mrc", particles()), "--picks", picks)
    assert code == 2
    assert "holds no picks of TS_001; it speaks of TS_8, TS_9" in stderr


def test_threshold_between_two_groups():
    generator = np.random.default_rng(0)
    scores = np.r_[generator.normal(0.2, 0.03, 400), generator.normal(0.45, 0.05, 60)]
    suggestion = suggest_threshold(scores)
    assert suggestion.method == "two_gaussians"
    assert 0.27 < suggestion.min_score < 0.35


def test_threshold_under_the_highest_of_three_groups():
    generator = np.random.default_rng(0)
    groups = [generator.normal(0.4, 0.03, 50), generator.normal(0.65, 0.03, 36), generator.normal(0.84, 0.02, 36)]
    suggestion = suggest_threshold(np.concatenate(groups))
    assert suggestion.method == "three_gaussians"
    assert 0.7 < suggestion.min_score < 0.81


@pytest.mark.parametrize("count", [1, 3, 7])
def test_few_scores_are_all_kept(count):
    suggestion = suggest_threshold(np.linspace(0.2, 0.9, count))
    assert (suggestion.method, suggestion.min_score) == ("keep_all", 0.2)


def test_alike_scores_are_all_kept_and_one_group_is_called_weak():
    assert suggest_threshold(np.full(50, 0.3)).method == "keep_all"
    suggestion = suggest_threshold(np.random.default_rng(1).normal(0.3, 0.02, 300))
    assert suggestion.method == "otsu"
    assert "weak" in suggestion.explanation


def test_few_but_clear_scores_are_cut_between():
    scores = np.array([0.2, 0.21, 0.22, 0.19, 0.2, 0.6, 0.61, 0.62, 0.59])
    assert 0.25 < suggest_threshold(scores).min_score < 0.58


def test_the_best_few_of_a_background_are_no_group():
    background = np.random.default_rng(4).normal(0.2, 0.012, 23)
    for strays in ([0.246], [0.262, 0.264, 0.265]):
        suggestion = suggest_threshold(np.r_[background, strays])
        assert suggestion.method == "otsu" and "weak" in suggestion.explanation


def _scored(write_star, series, seed):
    generator = np.random.default_rng(seed)
    truth = np.stack(np.meshgrid(np.arange(10, 60, 12), np.arange(10, 60, 12), [10, 26]), -1).reshape(-1, 3)
    false = generator.uniform(0, 60, (100, 3)) + [200, 0, 0]
    scores = np.r_[generator.normal(0.6, 0.04, len(truth)), generator.normal(0.2, 0.04, 100)]
    picks = write_star(f"{series}_picks.star", np.vstack([truth + 0.3, false]), scores, series=series)
    return picks, write_star(f"{series}_ribosome.star", truth, series=series)


def test_histogram_with_truth(render, write_star):
    picks, truths = zip(*(_scored(write_star, f"TS_00{n}", n) for n in (1, 2)), strict=True)
    arguments = ["--picks", *picks, "--truth", *truths, "--min-score", 0.1]
    code, index, _ = render("histogram", *arguments, "--diameter-angstrom", 80, "--apix", 10)
    assert code == 0
    figures = index["figures"]
    assert 0.3 < figures["suggested_min_score"] < 0.5
    assert figures["n_picks"] == 300
    assert figures["series"]["TS_001"] == {"n_picks": 150, "n_above": 50, "n_above_min_score": 150 - _below(picks[0])}
    assert figures["truth"]["at_suggested"]["f1"] == 1.0
    assert figures["truth"]["at_min_score"]["precision"] < 0.4
    assert figures["truth"]["hit_radius_px"] == 4.0
    names = [entry["name"] for entry in index["evidence"]]
    assert names == ["histogram/1-scores", "histogram/2-precision-recall"]


def _below(path):
    return int((read_picks(path)[0].scores < 0.1).sum())


def test_histogram_without_a_diameter_says_what_it_took(render, write_star):
    picks, truth = _scored(write_star, "TS_001", 1)
    _, index, _ = render("histogram", "--picks", picks, "--truth", truth)
    assert index["figures"]["truth"]["hit_radius_px"] == 6.0
    assert any("half the smallest distance" in warning for warning in index["warnings"])


def test_histogram_goes_on_without_a_bad_file(render, write_star, tmp_path):
    picks, _ = _scored(write_star, "TS_001", 1)
    code, index, _ = render("histogram", "--picks", picks, tmp_path / "TS_002_picks.star")
    assert code == 0
    assert "is not there" in index["figures"]["series"]["TS_002_picks.star"]["error"]


def test_histogram_without_scores_is_exit_2(render, write_star):
    code, _, stderr = render("histogram", "--picks", write_star("p.star", TRUE))
    assert code == 2
    assert "hold no picks with a score column" in stderr


def test_an_empty_table_is_no_picks(render, write_mrc, tmp_path):
    columns = "".join(f"_rlnCoordinate{axis} #{k + 1}\n" for k, axis in enumerate("XYZ"))
    empty = tmp_path / "empty.star"
    empty.write_text(f"data_\n\nloop_\n_rlnTomoName #4\n_rlnLCCmax #5\n{columns}")
    code, index, _ = render("picks", "--tomogram", write_mrc("TS_001.mrc", particles()), "--picks", empty)
    assert code == 0
    assert index["figures"]["n_picks"] == 0
    assert render("histogram", "--picks", empty)[0] == 2


def test_picks_that_name_another_tomogram_are_questioned(render, write_mrc, write_star):
    picks = write_star("p.star", TRUE, [1, 2, 3, 4], series="TS_008")
    _, index, _ = render("picks", "--tomogram", write_mrc("TS_001.mrc", particles()), "--picks", picks)
    assert any("speaks of TS_008" in warning for warning in index["warnings"])


def test_a_threshold_far_from_all_scores_is_not_drawn(render, write_star):
    picks, truth = _scored(write_star, "TS_001", 1)
    _, index, _ = render("histogram", "--picks", picks, "--truth", truth, "--min-score", 99)
    assert index["figures"]["n_above_min_score"] == 0
    assert index["figures"]["truth"]["at_min_score"]["precision"] is None
    assert any("far from all scores" in warning for warning in index["warnings"])
