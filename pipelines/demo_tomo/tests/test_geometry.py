"""Conventions: where a point is seen, which way a particle is turned, what a tilt measures."""

import numpy as np
import pytest
from tomo.geometry import (
    angle_between_deg,
    back_project,
    euler_from_matrix,
    even_rotations,
    local_rotations,
    low_passed,
    matrix_from_euler,
    project,
    projection_matrix,
    rotate,
    wedge,
)
from tomo.simulate import image_of
from tomo.template import density

ANGLES = np.array([-60.0, -30.0, 0.0, 45.0])


def point(shape: tuple[int, int, int], x: int, y: int, z: int) -> np.ndarray:
    volume = np.zeros(shape, np.float32)
    volume[z, y, x] = 1.0
    return volume


def expected_column(angle_deg: float, x: float, z: float, shape: tuple[int, int, int]) -> float:
    angle = np.deg2rad(angle_deg)
    centre_z, centre_x = (shape[0] - 1) / 2, (shape[2] - 1) / 2
    return (x - centre_x) * np.cos(angle) + (z - centre_z) * np.sin(angle) + centre_x


def test_a_point_is_projected_to_x_cos_plus_z_sin_and_its_own_row():
    shape = (24, 20, 32)
    images = project(projection_matrix(ANGLES, 24, 32), point(shape, x=20, y=5, z=17))
    for image, angle in zip(images, ANGLES, strict=True):
        assert image.sum() == pytest.approx(1.0, abs=1e-5)
        assert (image @ np.ones(32)).argmax() == 5
        assert image[5] @ np.arange(32) == pytest.approx(expected_column(angle, 20, 17, shape), abs=1e-4)


def test_back_projection_is_the_adjoint_of_projection_and_peaks_at_the_point():
    matrix, volume = projection_matrix(ANGLES, 24, 32), point((24, 20, 32), x=20, y=5, z=17)
    images = np.random.default_rng(0).normal(size=(4, 20, 32)).astype(np.float32)
    there, back = (project(matrix, volume) * images).sum(), (back_project(matrix, images, 24) * volume).sum()
    assert there == pytest.approx(back, rel=1e-4)
    smeared = back_project(matrix, project(matrix, volume), 24)
    assert np.unravel_index(smeared.argmax(), smeared.shape) == (17, 5, 20)


def test_the_simulated_image_is_the_projection_of_the_density():
    blobs = np.array([[4.0, -3.0, 5.0, 2.0, 1.0], [-5.0, 2.0, -4.0, 1.8, 0.6]])
    volume = density(blobs, 33)  # odd: its centre voxel is the centre of the volume
    images = project(projection_matrix(ANGLES, 33, 33), volume)
    for image, angle in zip(images, ANGLES, strict=True):
        exact = image_of(blobs, angle, np.zeros(2), 0.0, (33, 33))
        assert np.corrcoef(image.ravel(), exact.ravel())[0, 1] > 0.995


def test_euler_angles_survive_a_round_trip():
    rng = np.random.default_rng(1)
    triples = [*rng.uniform([-180, 0, -180], [180, 180, 180], (20, 3)), (30, 0, 0), (0, 0, -70), (0, 180, 40)]
    for triple in triples:
        matrix = matrix_from_euler(*triple)
        assert np.allclose(matrix_from_euler(*euler_from_matrix(matrix)), matrix, atol=1e-6)


def test_rot_alone_turns_the_reference_as_relion_does():
    # x_tomogram = A x_reference, and A's first row for rot = 90 is (0, 1, 0): the reference's y axis lands on x.
    assert np.allclose(matrix_from_euler(90, 0, 0) @ [0, 1, 0], [1, 0, 0], atol=1e-9)


def test_rotate_carries_a_voxel_where_the_matrix_says():
    box = density(np.array([[5.0, 0.0, 0.0, 1.2, 1.0]]), 24)
    turned = rotate(box, matrix_from_euler(90, 0, 0), shift=np.array([0.0, 0.0, 3.0]))
    z, y, x = np.unravel_index(turned.argmax(), turned.shape)
    assert (x - 12, y - 12, z - 12) == (0, -5, 3)


@pytest.mark.parametrize("step", [30.0, 45.0])
def test_even_rotations_leave_no_gap(step):
    tried, rng = even_rotations(step), np.random.default_rng(2)
    assert np.allclose(tried @ tried.transpose(0, 2, 1), np.eye(3), atol=1e-9)
    for triple in rng.uniform([-180, 0, -180], [180, 180, 180], (100, 3)):
        wanted = matrix_from_euler(*triple)
        assert min(angle_between_deg(one, wanted) for one in tried) < step


def test_local_rotations_are_the_identity_and_turns_by_the_step():
    angles = sorted(round(angle_between_deg(np.eye(3), turn), 3) for turn in local_rotations(7.0))
    assert angles == [0.0] + [7.0] * 26


def test_the_wedge_passes_what_the_tilts_measured_and_nothing_else():
    shape, tilts = (32, 32, 32), np.arange(-60, 61, 3.0)
    blob = density(np.array([[0.0, 0.0, 0.0, 1.5, 1.0]]), 32)
    measured = wedge(shape, tilts)
    assert measured[0, 5, 0] == 1.0  # along the tilt axis
    assert measured[0, 0, 8] == 1.0  # along x, zero tilt
    assert measured[8, 0, 0] == 0.0  # along the beam
    assert measured[8, 0, 8] == 1.0 and measured[12, 0, 4] == 0.0  # 45 and 72 degrees
    lopsided = wedge(shape, np.arange(-20, 61, 3.0))
    assert lopsided[8, 0, 8] == 1.0 and lopsided[-8, 0, 8] == 0.0
    assert np.abs(np.fft.rfftn(blob) * (1 - measured)).max() > 0


def test_the_wedge_in_the_particles_frame_turns_with_the_particle():
    shape, tilts = (32, 32, 32), np.arange(-60, 61, 3.0)
    upright = wedge(shape, tilts, matrix_from_euler(0, 90, 0))  # the beam runs along the reference's x axis
    assert upright[0, 0, 8] == 0.0 and upright[8, 0, 0] == 1.0


def test_a_low_pass_halves_contrast_at_its_period_and_keeps_the_mean():
    wave = 1 + np.cos(2 * np.pi * np.arange(24) / 6)[None, None, :] * np.ones((24, 24, 1))
    passed = low_passed(wave, 6)
    assert passed.mean() == pytest.approx(1) and np.ptp(passed) == pytest.approx(np.ptp(wave) / 2)
