"""Alignment finds the drift that was put in, and says where there is nothing to find."""

import numpy as np
import pytest
from tomo import align, conf, geometry, simulate
from tomo.errors import TomoError
from tomo.reconstruct import weighted_back_projection

TILTS = np.arange(-60, 61, 5.0)
SIZE = (64, 64)


def specimen(seed: int = 3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    count = 25
    places = rng.uniform([-26, -28, -10], [26, 28, 10], (count, 3))
    return np.column_stack([places, rng.uniform(1.5, 2.5, count), rng.uniform(0.5, 1.5, count)])


def seen(blobs: np.ndarray, shifts: np.ndarray, axis_deg: float = 0.0, noise: float = 0.0) -> np.ndarray:
    images = [simulate.image_of(blobs, t, s, axis_deg, SIZE) for t, s in zip(TILTS, shifts, strict=True)]
    return np.stack(images) + np.random.default_rng(4).normal(0, noise, (len(TILTS), *SIZE)).astype(np.float32)


def searched(images: np.ndarray, axis_deg: float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return align.search(images, TILTS, axis_deg=axis_deg, nz=32, iterations=4, reach=8, needle=False)


@pytest.mark.parametrize("axis_deg", [0.0, -8.0])
def test_known_shifts_are_recovered_to_a_fraction_of_a_pixel(axis_deg):
    shifts = simulate.drift(np.random.default_rng(5), TILTS, 1.0)
    found, residuals, correlations = searched(seen(specimen(), shifts, axis_deg, noise=0.05), axis_deg)
    assert np.sqrt(np.mean((found + shifts) ** 2, axis=0)) == pytest.approx([0, 0], abs=0.4)
    assert np.abs(shifts).max() > 2
    assert np.sqrt(np.mean(residuals**2)) < 0.3 and correlations.mean() > 0.3


def test_noise_alone_leaves_a_large_residual_and_no_correlation():
    images = np.random.default_rng(6).normal(size=(len(TILTS), *SIZE)).astype(np.float32)
    _, residuals, correlations = searched(images)
    assert np.sqrt(np.mean(residuals**2)) > 1.0 and correlations.mean() < 0.2


def test_the_rigid_part_of_a_drift_is_the_shift_of_a_point():
    across = 3 * np.cos(np.deg2rad(TILTS)) - 2 * np.sin(np.deg2rad(TILTS))
    assert np.allclose(
        geometry.without_rigid_part(np.stack([across, np.full(len(TILTS), 4.0)], 1), TILTS), 0, atol=1e-9
    )


def test_the_transform_turns_the_tilt_axis_upright_and_then_shifts():
    blob = np.array([[6.0, 9.0, 0.0, 1.5, 1.0]])
    raw = simulate.image_of(blob, 0.0, np.zeros(2), 30.0, SIZE)
    moved = align.transform(raw[None], 30.0, np.array([[2.0, -3.0]]), order=3)[0]
    wanted = simulate.image_of(blob, 0.0, np.array([2.0, -3.0]), 0.0, SIZE)
    assert np.corrcoef(moved.ravel(), wanted.ravel())[0, 1] > 0.995


@pytest.mark.parametrize("off_deg", [-3.0, 2.0])
def test_a_needles_tilt_axis_is_found(off_deg):
    places = np.column_stack([np.linspace(-4, 3, 40), np.linspace(-45, 45, 40), np.linspace(2, -3, 40)])
    blobs = np.column_stack([places, np.full(40, 4.0), 1 + 0.5 * np.sin(np.arange(40))])
    images = seen(blobs, np.random.default_rng(7).normal(0, 1.5, (len(TILTS), 2)), 90.0 + off_deg)
    assert align.find_axis(images, TILTS, 90.0, 5.0, 10.0) == pytest.approx(90.0 + off_deg, abs=0.3)
    with pytest.raises(TomoError, match="further than TILT_AXIS_SEARCH_DEG"):
        align.find_axis(images, TILTS, 90.0, 1.0, 10.0)


def test_weighted_back_projection_gives_the_specimen_back():
    blobs = specimen()
    volume = weighted_back_projection(seen(blobs, np.zeros((len(TILTS), 2))), TILTS, 32)
    z, y, x = np.meshgrid(*(np.arange(n) - (n - 1) / 2 for n in (32, 64, 64)), indexing="ij")
    truth = sum(
        w / (2 * np.pi * s**2) ** 1.5 * np.exp(-((x - a) ** 2 + (y - b) ** 2 + (z - c) ** 2) / (2 * s**2))
        for a, b, c, s, w in blobs
    )
    assert np.corrcoef(volume.ravel(), truth.ravel())[0, 1] > 0.75  # the wedge is missing


def test_a_bad_value_is_named(values, monkeypatch):
    monkeypatch.setenv("TILT_STEP_DEG", "three")
    with pytest.raises(TomoError, match="TILT_STEP_DEG is 'three'"):
        conf.tilt_angles()
