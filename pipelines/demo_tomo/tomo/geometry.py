"""Rotations, the projection of a volume about the tilt axis, and the missing wedge."""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from scipy.sparse import csr_array


def matrix_from_euler(rot_deg: float, tilt_deg: float, psi_deg: float) -> np.ndarray:
    """Return the 3x3 matrix A with r_tomogram = A r_reference for (x, y, z) columns, in RELION's convention.

    A = Rz(psi) Ry(tilt) Rz(rot), each turning the axes, as in RELION's Euler_angles2matrix.
    """
    (ca, sa), (cb, sb), (cg, sg) = ((np.cos(a), np.sin(a)) for a in np.deg2rad([rot_deg, tilt_deg, psi_deg]))
    rot = np.array([[ca, sa, 0], [-sa, ca, 0], [0, 0, 1]])
    tilt = np.array([[cb, 0, -sb], [0, 1, 0], [sb, 0, cb]])
    psi = np.array([[cg, sg, 0], [-sg, cg, 0], [0, 0, 1]])
    return psi @ tilt @ rot


def euler_from_matrix(matrix: np.ndarray) -> tuple[float, float, float]:
    """Return rot, tilt, psi in degrees of a matrix, the inverse of matrix_from_euler."""
    tilt = np.arccos(np.clip(matrix[2, 2], -1, 1))
    if np.sin(tilt) > 1e-6:
        rot, psi = np.arctan2(matrix[2, 1], matrix[2, 0]), np.arctan2(matrix[1, 2], -matrix[0, 2])
    else:
        rot, psi = 0.0, np.arctan2(-matrix[1, 0] * np.sign(matrix[2, 2]), matrix[1, 1])
    return float(np.rad2deg(rot)), float(np.rad2deg(tilt)), float(np.rad2deg(psi))


def matrices_from_quaternions(quaternions: np.ndarray) -> np.ndarray:
    """Return rotation matrices (n, 3, 3) of unit quaternions (n, 4), the scalar last."""
    x, y, z, w = quaternions.T
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    return np.moveaxis(np.array(rows), 2, 0)


def even_rotations(step_deg: float) -> np.ndarray:
    """Return rotation matrices (n, 3, 3) spread evenly over all rotations, about `step_deg` apart.

    Super-Fibonacci spirals (Alexa, CVPR 2022). The number follows from the volume 8 pi^2 of the rotations' space.
    """
    count = max(8, round(8 * np.pi**2 / np.deg2rad(step_deg) ** 3))
    golden, other = np.sqrt(2.0), 1.533751168755204288118041
    s = np.arange(count) + 0.5
    inner, outer = np.sqrt(s / count), np.sqrt(1 - s / count)
    alpha, beta = 2 * np.pi * s / golden, 2 * np.pi * s / other
    parts = [inner * np.sin(alpha), inner * np.cos(alpha), outer * np.sin(beta), outer * np.cos(beta)]
    return matrices_from_quaternions(np.stack(parts, axis=1))


def local_rotations(step_deg: float) -> np.ndarray:
    """Return the identity and the turns by `step_deg` about 13 axes (cube faces, edges, corners), both ways."""
    grid = np.stack(np.meshgrid([-1, 0, 1], [-1, 0, 1], [-1, 0, 1]), axis=-1).reshape(-1, 3).astype(float)
    length = np.linalg.norm(grid, axis=1, keepdims=True)
    half = np.deg2rad(step_deg) / 2
    axes = np.divide(grid, length, out=np.zeros_like(grid), where=length > 0)
    scalar = np.where(length > 0, np.cos(half), 1.0)
    return matrices_from_quaternions(np.hstack([axes * np.sin(half), scalar]))


def angle_between_deg(first: np.ndarray, second: np.ndarray) -> float:
    """Return the angle in degrees of the rotation that leads from one matrix to the other."""
    return float(np.rad2deg(np.arccos(np.clip((np.trace(first.T @ second) - 1) / 2, -1, 1))))


def rotate(volume: np.ndarray, matrix: np.ndarray, shift: np.ndarray | None = None, order: int = 1) -> np.ndarray:
    """Return a box (z, y, x) turned about voxel n // 2: r_out = matrix r_in + shift for (x, y, z) in pixels."""
    from scipy.ndimage import affine_transform

    inverse = matrix.T[::-1, ::-1]
    centre = np.array(volume.shape) // 2
    moved = centre if shift is None else centre + np.asarray(shift)[::-1]
    return affine_transform(volume, inverse, offset=centre - inverse @ moved, order=order, output=np.float32)


def frequencies(shape: tuple[int, int, int]) -> np.ndarray:
    """Return the frequencies (x, y, z; cycles a pixel) of a real FFT of that shape, as (3, z, y, x // 2 + 1)."""
    nz, ny, nx = shape
    z, y, x = np.meshgrid(np.fft.fftfreq(nz), np.fft.fftfreq(ny), np.fft.rfftfreq(nx), indexing="ij")
    return np.stack([x, y, z]).astype(np.float32)


def low_passed(volume: np.ndarray, period_px: float) -> np.ndarray:
    """Return a volume whose contrast is halved at a period of `period_px`, by a Gaussian."""
    from scipy import fft

    distance = np.linalg.norm(frequencies(volume.shape), axis=0)
    return fft.irfftn(fft.rfftn(volume) * 0.5 ** ((distance * period_px) ** 2), volume.shape)


def wedge(shape: tuple[int, int, int], angles_deg: np.ndarray, matrix: np.ndarray | None = None) -> np.ndarray:
    """Return 1 where the tilts have measured a frequency and 0 in the missing wedge, softly, for a real FFT.

    With `matrix`, the wedge as the reference sees it, for a particle turned by that matrix in the tomogram.
    At tilt t the frequencies with z / x = tan t are measured, for any y (the central slice theorem).
    """
    grid = frequencies(shape)
    if matrix is not None:
        grid = np.einsum("ij,jzyx->izyx", matrix.astype(np.float32), grid)
    x, _, z = grid
    flip = np.where(x < 0, -1.0, 1.0)
    tilt = np.rad2deg(np.arctan2(z * flip, np.maximum(np.abs(x), 1e-9)))
    low, high = float(np.min(angles_deg)), float(np.max(angles_deg))
    softness_deg = 2.0
    inside = np.minimum(tilt - low, high - tilt) / softness_deg + 0.5
    inside[np.hypot(x, z) < 0.5 / max(shape)] = 1.0
    return np.clip(inside, 0, 1).astype(np.float32)


def without_rigid_part(shifts: np.ndarray, angles_deg: np.ndarray) -> np.ndarray:
    """Return shifts (tilts, 2) less what a shift of the whole specimen explains: the smallest that align as well."""
    across = np.stack([np.cos(np.deg2rad(angles_deg)), np.sin(np.deg2rad(angles_deg))], axis=1)
    rigid = across @ np.linalg.lstsq(across, shifts[:, 0], rcond=None)[0]
    return np.stack([shifts[:, 0] - rigid, shifts[:, 1] - shifts[:, 1].mean()], axis=1)


def projection_matrix(angles_deg: np.ndarray, nz: int, nx: int) -> "csr_array":
    """Return the sparse matrix that projects slices across the tilt axis, with linear interpolation.

    It turns a volume reshaped to (nz * nx, ny) into projections (tilts * nx, ny); its transpose projects back.
    """
    from scipy.sparse import csr_array

    z, x = np.meshgrid(np.arange(nz) - (nz - 1) / 2, np.arange(nx) - (nx - 1) / 2, indexing="ij")
    rows, columns, values = [], [], []
    for index, angle in enumerate(np.deg2rad(angles_deg)):
        u = (x * np.cos(angle) + z * np.sin(angle) + (nx - 1) / 2).ravel()
        left = np.floor(u).astype(np.int64)
        for column, weight in ((left, 1 - (u - left)), (left + 1, u - left)):
            seen = (column >= 0) & (column < nx)
            rows.append(index * nx + column[seen])
            columns.append(np.flatnonzero(seen))
            values.append(weight[seen])
    shape = (len(angles_deg) * nx, nz * nx)
    entries = np.concatenate(values).astype(np.float32)
    return csr_array((entries, (np.concatenate(rows), np.concatenate(columns))), shape=shape)


def project(matrix: "csr_array", volume: np.ndarray) -> np.ndarray:
    """Return the projections (tilts, y, x) of a volume (z, y, x)."""
    nz, ny, nx = volume.shape
    flat = np.ascontiguousarray(volume.transpose(0, 2, 1)).reshape(nz * nx, ny)
    return (matrix @ flat).reshape(-1, nx, ny).transpose(0, 2, 1)


def back_project(matrix: "csr_array", images: np.ndarray, nz: int) -> np.ndarray:
    """Return the volume (z, y, x) into which images (tilts, y, x) are smeared back."""
    tilts, ny, nx = images.shape
    flat = np.ascontiguousarray(images.transpose(0, 2, 1)).reshape(tilts * nx, ny)
    return np.ascontiguousarray((matrix.T @ flat).reshape(nz, nx, ny).transpose(0, 2, 1))
