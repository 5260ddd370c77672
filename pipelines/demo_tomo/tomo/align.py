"""Phase 2: alignment of a tilt series by cross-correlation, without markers.

First each image with its neighbour nearer to zero tilt; then, again and again, each image with the projection of a
volume that was reconstructed without it.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tomo import conf, files
from tomo.errors import TomoError
from tomo.geometry import project, projection_matrix, without_rigid_part
from tomo.reconstruct import edge_level, weighted_back_projection

FOLDS = 5
VALUES = (
    "SPECIMEN", "TILT_AXIS_DEG", "TILT_AXIS_SEARCH_DEG", "MAX_SHIFT_PX",
    "ALIGN_BIN", "ALIGN_ITERATIONS", "TOMO_DIM_Z",
)  # fmt: skip


def transform(images: np.ndarray, axis_deg: float, shifts: np.ndarray, order: int = 1) -> np.ndarray:
    """Return images (tilts, y, x) turned so that the tilt axis is y, then shifted by (x, y) pixels each."""
    from scipy.ndimage import affine_transform

    inverse = matrix_to_aligned(axis_deg).T[::-1, ::-1]
    centre = (np.array(images.shape[1:]) - 1) / 2
    return np.stack(
        [
            affine_transform(
                image,
                inverse,
                centre - inverse @ (centre + shift[::-1]),
                order=order,
                mode="reflect",
                output=np.float32,
            )
            for image, shift in zip(images, shifts, strict=True)
        ]
    )


def matrix_to_aligned(axis_deg: float) -> np.ndarray:
    """Return the 2x2 matrix that turns (x, y) of a raw image so that the tilt axis becomes y."""
    axis = np.deg2rad(axis_deg)
    return np.array([[np.cos(axis), np.sin(axis)], [-np.sin(axis), np.cos(axis)]])


def band(shape: tuple[int, int], low_px: float, high_px: float) -> np.ndarray:
    """Return a smooth band-pass for a real FFT: periods between `high_px` (coarse) and `low_px` (fine) pixels pass."""
    frequency = np.hypot(np.fft.fftfreq(shape[0])[:, None], np.fft.rfftfreq(shape[1])[None, :])
    fine = np.exp(-((frequency * low_px) ** 2))
    return (fine * (1 - np.exp(-((frequency * high_px) ** 2)))).astype(np.float32)


def coarse_band(images: np.ndarray) -> np.ndarray:
    """Return the band-pass for matching neighbours, whose detail differs."""
    return band(images.shape[1:], low_px=4.0, high_px=min(images.shape[1:]) / 3)


def taper(shape: tuple[int, int], edge: float = 0.1) -> np.ndarray:
    """Return a window (y, x) that falls to 0 over that fraction of the image at each edge."""
    ramps = [np.clip(np.minimum(np.arange(n), np.arange(n)[::-1]) / (edge * n), 0, 1) for n in shape]
    rows, columns = (0.5 - 0.5 * np.cos(np.pi * ramp) for ramp in ramps)
    return np.outer(rows, columns).astype(np.float32)


def spectra(images: np.ndarray, filter_: np.ndarray) -> np.ndarray:
    """Return tapered, band-passed Fourier transforms of images, each of unit length, so that products correlate."""
    from scipy import fft

    level = images.mean(axis=(1, 2), keepdims=True)
    found = fft.rfft2((images - level) * taper(images.shape[1:])) * filter_
    doubled = np.full(found.shape[2], 2.0)
    doubled[0] = 1.0
    length = np.sqrt((np.abs(found) ** 2 * doubled).sum(axis=(1, 2), keepdims=True) / np.prod(images.shape[1:]))
    return found / np.maximum(length, 1e-12)


def best_shifts(
    references: np.ndarray, images: np.ndarray, filter_: np.ndarray, reach: float
) -> tuple[np.ndarray, ...]:
    """Return the shifts (n, 2; x, y in pixels) by which images must be moved to lie on references, and correlations.

    Peaks further than `reach` pixels are not looked at; a parabola gives the fraction of a pixel. The correlations
    are those at no shift.
    """
    from scipy import fft

    ny, nx = images.shape[1:]
    maps = fft.irfft2(spectra(references, filter_) * spectra(images, filter_).conj(), (ny, nx))
    distance = np.hypot(np.fft.fftfreq(ny, 1 / ny)[:, None], np.fft.fftfreq(nx, 1 / nx)[None, :])
    shifts = []
    for found in maps:
        y, x = np.unravel_index(np.argmax(np.where(distance <= reach, found, -np.inf)), found.shape)
        across = parabola(found[y, (x - 1) % nx], found[y, x], found[y, (x + 1) % nx])
        along = parabola(found[(y - 1) % ny, x], found[y, x], found[(y + 1) % ny, x])
        shifts.append([(x + nx // 2) % nx - nx // 2 + across, (y + ny // 2) % ny - ny // 2 + along])
    return np.array(shifts), maps[:, 0, 0]


def parabola(before: float, at: float, after: float) -> float:
    """Return where a parabola through three values one apart has its top, from -0.5 to 0.5 about the middle one."""
    bend = before - 2 * at + after
    return float(np.clip(0.5 * (before - after) / bend, -0.5, 0.5)) if bend < 0 else 0.0


def neighbour_shifts(images: np.ndarray, angles_deg: np.ndarray, filter_: np.ndarray, reach: float) -> np.ndarray:
    """Return shifts (tilts, 2) that carry each image onto its neighbour nearer to zero tilt, summed outwards.

    An image at the higher tilt is narrower: it is stretched by the ratio of the cosines before it is compared.
    """
    from scipy.ndimage import affine_transform

    middle, cosines = int(np.argmin(np.abs(angles_deg))), np.cos(np.deg2rad(angles_deg))
    shifts = np.zeros((len(images), 2))
    centre = (np.array(images.shape[1:]) - 1) / 2
    outward = [*range(middle + 1, len(images)), *range(middle - 1, -1, -1)]
    for index in outward:
        inner = index - 1 if index > middle else index + 1
        ratio = cosines[index] / cosines[inner]
        squeeze = np.diag([1.0, ratio])
        offset = centre - squeeze @ centre
        stretched = affine_transform(images[index], squeeze, offset, order=1, mode="reflect")
        found, _ = best_shifts(images[inner][None], stretched[None], filter_, reach)
        shifts[index] = [(shifts[inner, 0] + found[0, 0]) * ratio, shifts[inner, 1] + found[0, 1]]
    return shifts


def mass_shifts(images: np.ndarray, angles_deg: np.ndarray, filter_: np.ndarray, reach: float) -> np.ndarray:
    """Return shifts (tilts, 2) for a needle: its centre of mass onto the axis, and neighbours matched along it.

    As mass is projected whole, the centre of mass across the axis moves as a point does; along the axis a
    needle's profile is the same at every tilt.
    """
    columns = np.arange(images.shape[2]) - (images.shape[2] - 1) / 2
    profile = np.clip(images - edge_level(images), 0, None).sum(axis=1)
    centred = np.zeros((len(images), 2))
    centred[:, 0] = -(profile @ columns) / np.maximum(profile.sum(axis=1), 1e-12)
    moved = transform(images, 0.0, centred)
    along = np.zeros_like(centred)
    middle = int(np.argmin(np.abs(angles_deg)))
    for index in [*range(middle + 1, len(images)), *range(middle - 1, -1, -1)]:
        inner = index - 1 if index > middle else index + 1
        found, _ = best_shifts(moved[inner][None], moved[index][None], filter_, reach)
        along[index, 1] = along[inner, 1] + found[0, 1]
    return centred + along


def folds(count: int) -> Iterator[np.ndarray]:
    """Yield boolean arrays, each true at every FOLDS-th tilt; together they are true once at each."""
    for first in range(min(FOLDS, count)):
        yield np.arange(count) % FOLDS == first


def reprojections(images: np.ndarray, angles_deg: np.ndarray, nz: int) -> np.ndarray:
    """Return for each aligned image the projection, at its angle, of a volume made without it."""
    result = np.empty_like(images)
    for left_out in folds(len(images)):
        volume = weighted_back_projection(images[~left_out], angles_deg[~left_out], nz)
        result[left_out] = project(projection_matrix(angles_deg[left_out], nz, images.shape[2]), volume)
    return result


def search(
    raw: np.ndarray, angles_deg: np.ndarray, *, axis_deg: float, nz: int, iterations: int, reach: float, needle: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return shifts (tilts, 2; x, y), the residual of each tilt in pixels, and its correlation.

    The residual is by how far an image still lies from the projection of the volume made without it, at the last
    look. It is small where the alignment has settled, and stays large where there is nothing to settle on.
    """
    turned = transform(raw, axis_deg, np.zeros((len(raw), 2)))
    fine = band(raw.shape[1:], low_px=3.0, high_px=min(raw.shape[1:]) / 4)
    start = mass_shifts if needle else neighbour_shifts
    shifts = start(turned, angles_deg, coarse_band(raw), reach)
    if not needle:
        shifts = without_rigid_part(shifts, angles_deg)
    for look in range(iterations + 1):
        images = transform(raw, axis_deg, shifts)
        moves, correlations = best_shifts(reprojections(images, angles_deg, nz), images, fine, max(reach / 2, 2.0))
        if not needle:
            moves = without_rigid_part(moves, angles_deg)
        residuals = np.hypot(*moves.T)
        if look == iterations or residuals.max() < 0.05:
            break
        shifts = shifts + moves
    return shifts, residuals, correlations


def binned(images: np.ndarray, factor: int) -> np.ndarray:
    """Return images averaged over squares of `factor` pixels."""
    tilts, ny, nx = images.shape
    cut = images[:, : ny // factor * factor, : nx // factor * factor]
    return cut.reshape(tilts, ny // factor, factor, nx // factor, factor).mean(axis=(2, 4))


def axis_error_deg(images: np.ndarray, angles_deg: np.ndarray) -> float:
    """Return by how many degrees the tilt axis of a needle still lies off the image's y axis, counter-clockwise.

    Each row's centre of mass, less the mean over the rows, goes as a cos t + b sin t + c with the tilt t. Where the
    axis is upright c is 0 in each row; where it is not, c grows along the axis, and its slope is the error.
    """
    mass = np.clip(images - edge_level(images), 0, None)
    mass[mass < 0.01 * mass.max()] = 0
    columns, total = np.arange(images.shape[2]) - (images.shape[2] - 1) / 2, mass.sum(axis=2)
    edge = max(2, images.shape[1] // 20)
    rows = np.flatnonzero(total.min(axis=0) > 0.2 * np.median(total[total > 0]))
    rows = rows[(rows >= edge) & (rows < images.shape[1] - edge)]
    if len(rows) < 5:
        raise TomoError(
            "Too few rows hold the needle at every tilt; give TILT_AXIS_DEG and set TILT_AXIS_SEARCH_DEG=0."
        )
    centres = (mass[:, rows] @ columns) / total[:, rows]
    centres -= centres.mean(axis=1, keepdims=True)
    tilts = np.deg2rad(angles_deg)
    waves = np.stack([np.cos(tilts), np.sin(tilts), np.ones_like(tilts)], axis=1)
    constant = np.linalg.lstsq(waves, centres, rcond=None)[0][2]
    return float(-np.rad2deg(np.arctan(np.polyfit(rows, constant, 1)[0])))


def find_axis(raw: np.ndarray, angles_deg: np.ndarray, axis_deg: float, range_deg: float, reach: float) -> float:
    """Return the tilt axis' angle in degrees of a needle, found from its rows' centres of mass in a few rounds."""
    found, coarse = axis_deg, coarse_band(raw)
    for _ in range(4):
        turned = transform(raw, found, np.zeros((len(raw), 2)))
        shifts = mass_shifts(turned, angles_deg, coarse, reach)
        found += axis_error_deg(transform(raw, found, shifts), angles_deg)
    if abs(found - axis_deg) > range_deg:
        raise TomoError(
            f"The tilt axis is found at {found:.1f} degrees, further than TILT_AXIS_SEARCH_DEG={range_deg:g} from "
            f"TILT_AXIS_DEG={axis_deg:g}: look at the images and set one of them."
        )
    return found


def align_series(work: Path, name: str) -> str:
    """Align one tilt series and write its stack, angles, transforms and figures."""
    raw, apix = files.read_mrc(files.stack_path(work, name))
    angles = files.read_angles(files.stack_path(work, name, ".rawtlt"))
    if len(raw) != len(angles):
        raise TomoError(f"{name} has {len(raw)} images but {len(angles)} tilt angles.")
    factor = conf.whole("ALIGN_BIN", "1", at_least=1)
    small, nz = binned(raw, factor), max(2, conf.whole("TOMO_DIM_Z") // factor)
    specimen, reach = conf.text("SPECIMEN", "slab"), conf.positive("MAX_SHIFT_PX") / factor
    axis_deg, range_deg = conf.number("TILT_AXIS_DEG", "0"), conf.number("TILT_AXIS_SEARCH_DEG", "0")
    if specimen not in ("slab", "needle"):
        raise TomoError(f"SPECIMEN is {specimen!r}: give slab or needle.")
    if range_deg > 0 and specimen == "slab":
        raise TomoError(
            "The tilt axis can be searched for a needle only: with SPECIMEN=slab set TILT_AXIS_SEARCH_DEG=0."
        )
    if range_deg > 0:
        axis_deg = find_axis(small, angles, axis_deg, range_deg, reach)
    iterations = conf.whole("ALIGN_ITERATIONS", at_least=1)
    shifts, residuals, correlations = search(
        small, angles, axis_deg=axis_deg, nz=nz, iterations=iterations, reach=reach, needle=specimen == "needle"
    )
    shifts, residuals = shifts * factor, residuals * factor
    residual = float(np.sqrt(np.mean(residuals**2)))
    figures = {
        "series": name,
        "residual_px": round(residual, 4),
        "correlation": round(float(correlations.mean()), 4),
        "tilt_axis_deg": round(axis_deg, 3),
        "residuals_px": [round(float(r), 3) for r in residuals],
    }
    write_alignment(work, name, transform(raw, axis_deg, shifts, order=3), angles, apix, axis_deg, shifts, figures)
    return f"residual {residual:.2f} px, correlation {correlations.mean():.2f}, tilt axis {axis_deg:.2f} degrees"


def write_alignment(
    work: Path,
    name: str,
    images: np.ndarray,
    angles: np.ndarray,
    apix: float,
    axis_deg: float,
    shifts: np.ndarray,
    figures: dict,
) -> None:
    """Write an aligned series, the stack last, as its presence says that the rest is there.

    A line of the .xf is A11 A12 A21 A22 DX DY of IMOD: x' = A (x - centre) + D + centre, D in pixels.
    """
    matrix = matrix_to_aligned(axis_deg).ravel()
    lines = ["".join(f"{a:12.7f}" for a in matrix) + f"{dx:12.3f}{dy:12.3f}\n" for dx, dy in shifts]
    files.write_text(files.stack_path(work, name, ".xf"), "".join(lines))
    files.write_text(files.stack_path(work, name, ".tlt"), "".join(f"{a:8.2f}\n" for a in angles))
    files.write_text(files.stack_path(work, name, "_align.json"), json.dumps(figures, indent=1))
    files.write_mrc(files.stack_path(work, name, "_ali.mrc"), images, apix, kind="stack")


def run(work: Path) -> None:
    """Align the tilt series that are not excluded and not done, and list the figures in alignment.tsv."""
    names = files.series_names(work)
    files.for_each(
        names,
        lambda name: align_series(work, name),
        "aligned",
        output=lambda name: files.stack_path(work, name, "_ali.mrc"),
        inputs=lambda name: [files.stack_path(work, name, suffix) for suffix in (".mrc", ".rawtlt")],
        values=VALUES,
    )
    rows = ["series\tresidual_px\tcorrelation\ttilt_axis_deg\n"]
    for name in names:
        figures = json.loads(files.stack_path(work, name, "_align.json").read_text(encoding="utf-8"))
        rows.append("{series}\t{residual_px}\t{correlation}\t{tilt_axis_deg}\n".format(**figures))
    files.write_text(work / "tiltstack" / "alignment.tsv", "".join(rows))
