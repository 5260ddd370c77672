"""Half-sets that never see one another, and the resolution they give."""

from pathlib import Path

import numpy as np
import pytest
from tomo.average import Particle, average, refine
from tomo.fsc import first_crossing, shell_correlation
from tomo.geometry import angle_between_deg, matrix_from_euler, rotate, wedge
from tomo.template import density, sphere

pytestmark = pytest.mark.slow  # they look at one run of all phases

TILTS = np.arange(-60, 61, 3.0)
BLOBS = np.array([[4, 0, 0, 1.5, 1.2], [-4, 3, 1, 1.5, 1.0], [0, -4, 3, 1.5, 1.1], [0, 2, -5, 1.5, 0.9]], float)


def particles(count: int, noise: float, off_deg: float = 0.0, seed: int = 9) -> list[Particle]:
    """Make particles at known poses, believed to be turned by off_deg from them."""
    rng, made = np.random.default_rng(seed), []
    for _ in range(count):
        matrix = matrix_from_euler(*rng.uniform([-180, 0, -180], [180, 180, 180]))
        box = rotate(density(BLOBS, 24), matrix) + rng.normal(0, noise, (24, 24, 24))
        box = np.fft.irfftn(np.fft.rfftn(box) * wedge(box.shape, TILTS), box.shape, axes=(0, 1, 2)).astype(np.float32)
        believed = matrix @ matrix_from_euler(*(rng.choice([-1, 1], 3) * [off_deg, 0, 0]))
        made.append(Particle({"truth": matrix}, box, TILTS, 1, believed, np.zeros(3)))
    return made


def test_an_average_over_many_directions_fills_the_missing_wedge():
    mean = average(particles(20, noise=0.0))
    assert np.corrcoef(mean.ravel(), density(BLOBS, 24).ravel())[0, 1] > 0.97


def test_refinement_brings_the_particles_together():
    made = particles(8, noise=0.002, off_deg=10.0)
    refine(made, sphere(24, 9), 1, 20.0, 3.0)
    relative = [p.row["truth"].T @ p.matrix for p in made]
    pairs = [angle_between_deg(a, b) for i, a in enumerate(relative) for b in relative[:i]]
    assert np.mean(pairs) < 6.0  # about 10 before: half of the pairs are 20 degrees apart


def test_the_resolution_gets_worse_with_noise():
    def resolution(noise: float) -> float:
        halves = [average(particles(10, noise, seed=seed)) for seed in (10, 11)]
        return first_crossing(*shell_correlation(*(half * sphere(24, 9) for half in halves), apix=10.0))

    low, middle, high = resolution(0.002), resolution(0.01), resolution(0.04)
    assert 20.0 <= low < middle < high


def test_the_fsc_of_a_map_with_itself_is_one_and_of_noise_is_not():
    rng = np.random.default_rng(12)
    one, other = rng.normal(size=(2, 24, 24, 24))
    frequency, same = shell_correlation(one, one, 10.0)
    assert np.allclose(same, 1.0) and frequency[-1] == pytest.approx(1 / 20)
    assert np.abs(shell_correlation(one, other, 10.0)[1][4:]).max() < 0.3


def test_the_first_crossing_counts_and_is_interpolated():
    frequency = np.array([0, 0.01, 0.02, 0.03, 0.04])
    assert first_crossing(frequency, np.array([1, 0.9, 0.243, 0.043, 0.5])) == pytest.approx(1 / 0.025)
    assert first_crossing(frequency, np.ones(5)) == pytest.approx(25.0)
    assert first_crossing(frequency, np.array([1, 0.1, 0.2, 0.1, 0])) == float("inf")


def test_half_sets_share_no_particle_and_one_does_not_change_with_the_other(finished, monkeypatch):
    from tomo import files
    from tomo.average import load

    monkeypatch.setenv("EXCLUDED_SERIES", "TS_003")
    made = load(finished.work, "alpha")
    halves = [{id(p) for p in made if p.half == half} for half in (1, 2)]
    assert not halves[0] & halves[1] and abs(len(halves[0]) - len(halves[1])) <= 1
    first = [p for p in made if p.half == 1]
    alone = refine(first, sphere(first[0].box.shape[0], 8.5), 1, 38.0, 4.0)
    written, _ = files.read_mrc(Path(finished.work) / "average" / "alpha" / "half1.mrc")
    assert np.allclose(alone, written, atol=1e-5 * np.abs(written).max())
