"""Matching finds planted particles where they are and as they are turned."""

import numpy as np
import pytest
from tomo.align import parabola
from tomo.evaluate import hits
from tomo.geometry import angle_between_deg, even_rotations, matrix_from_euler, rotate, wedge
from tomo.match import match
from tomo.picks import peaks, top_of
from tomo.subtomo import cut_out
from tomo.template import density, sphere

TILTS = np.arange(-60, 61, 3.0)
BLOBS = np.array([[4, 0, 0, 2.0, 1.2], [-4, 3, 1, 2.0, 1.0], [0, -4, 3, 2.0, 1.1], [0, 2, -5, 2.0, 0.9]], float)


def planted(turns: list[np.ndarray], places: list[tuple[int, int, int]]) -> np.ndarray:
    rng = np.random.default_rng(8)
    volume = rng.normal(0, 0.002, (32, 48, 48)).astype(np.float32)
    for turn, (x, y, z) in zip(turns, places, strict=True):
        volume[z - 10 : z + 10, y - 10 : y + 10, x - 10 : x + 10] += rotate(density(BLOBS, 20), turn)
    seen = np.fft.irfftn(np.fft.rfftn(volume) * wedge(volume.shape, TILTS), volume.shape, axes=(0, 1, 2))
    return seen.astype(np.float32)


def test_planted_particles_are_found_within_a_voxel_and_within_the_angular_step():
    turns, places = [matrix_from_euler(40, 70, -20), matrix_from_euler(-100, 130, 60)], [(14, 15, 15), (33, 31, 16)]
    step = 36.0
    rotations = even_rotations(step)
    scores, which = match(planted(turns, places), density(BLOBS, 20), sphere(20, 8), TILTS, rotations, "test")
    found = peaks(scores, 2, 10.0, 3)
    assert scores.max() <= 1.0 + 1e-3
    for turn, place in zip(turns, places, strict=True):
        near = min(found, key=lambda at: np.linalg.norm(np.array(at)[::-1] - place))
        assert np.linalg.norm(top_of(scores, near) - place) < 1.0
        assert angle_between_deg(rotations[which[near]], turn) < step
        assert scores[near] > 0.5


def test_an_exact_copy_scores_one():
    template, mask = density(BLOBS, 20), sphere(20, 8)
    seen = np.zeros((32, 32, 32), np.float32)
    full = np.array([-95.0, 95.0])  # no wedge is missing
    seen[6:26, 6:26, 6:26] = template
    scores, _ = match(seen, template, mask, full, np.eye(3)[None], "test")
    assert np.unravel_index(scores.argmax(), scores.shape) == (16, 16, 16)
    assert scores.max() == pytest.approx(1.0, abs=0.02)


def test_peaks_keep_their_distance_and_stay_off_the_faces():
    scores = np.zeros((20, 20, 20), np.float32)
    scores[10, 10, 10], scores[10, 10, 13], scores[1, 10, 10], scores[10, 4, 4] = 0.9, 0.8, 1.0, 0.5
    assert peaks(scores, 2, 5.0, 3) == [(10, 10, 10), (10, 4, 4)]


def test_a_parabola_finds_the_top_between_voxels():
    top = [-((x - 0.3) ** 2) for x in (-1, 0, 1)]
    assert parabola(*top) == pytest.approx(0.3)


def test_a_box_is_cut_with_its_place_at_its_centre_voxel():
    volume = np.zeros((30, 30, 30))
    volume[15:18, 12, 11] = [0.5, 1.0, 0.5]
    box = cut_out(volume, np.array([11.0, 12.0, 16.0]), 8)
    assert np.unravel_index(box.argmax(), box.shape) == (4, 4, 4)
    assert cut_out(volume, np.array([1.0, 29.0, 0.0]), 8).shape == (8, 8, 8)


def test_each_true_place_is_hit_once():
    truth = np.array([[0.0, 0, 0], [10, 0, 0]])
    assert hits(np.array([[1.0, 0, 0], [0, 1, 0], [30, 0, 0]]), truth, 3.0) == 1
    assert hits(np.empty((0, 3)), truth, 3.0) == 0
