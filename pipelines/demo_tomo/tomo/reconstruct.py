"""Phase 3: tomograms by weighted back-projection."""

from pathlib import Path

import numpy as np

from tomo import conf, files
from tomo.geometry import back_project, projection_matrix


def ramp_filter(images: np.ndarray, cutoff: float = 1.0) -> np.ndarray:
    """Return images (tilts, y, x) weighted by |frequency| across the tilt axis, with a Hann edge up to `cutoff`.

    `cutoff` is a fraction of Nyquist. The rows are padded to twice their length against wrapping around. The
    filter is that of the band-limited ramp in real space, which keeps the density's level (Kak and Slaney, 1988).
    """
    from scipy import fft

    nx = images.shape[2]
    length = 2 * fft.next_fast_len(nx)
    offset = np.minimum(np.arange(length), length - np.arange(length))
    kernel = np.where(offset % 2 == 1, -1 / (np.pi**2 * np.maximum(offset, 1) ** 2.0), 0.0)
    kernel[0] = 0.25
    frequency = np.fft.rfftfreq(length) / (0.5 * cutoff)
    window = np.where(frequency <= 1, 0.5 + 0.5 * np.cos(np.pi * frequency), 0.0)
    weights = (np.fft.rfft(kernel).real * window).astype(np.float32)
    spectrum = fft.rfft(images - edge_level(images), length, axis=2)
    return fft.irfft(spectrum * weights, length, axis=2)[:, :, :nx]


def edge_level(images: np.ndarray) -> np.ndarray:
    """Return each image's median over its left and right edges (tilts, 1, 1): the level around the specimen."""
    edges = np.concatenate([images[:, :, :3], images[:, :, -3:]], axis=2)
    return np.median(edges, axis=(1, 2), keepdims=True)


def weighted_back_projection(images: np.ndarray, angles_deg: np.ndarray, nz: int, cutoff: float = 1.0) -> np.ndarray:
    """Return the tomogram (z, y, x) of aligned images (tilts, y, x).

    Each tilt is weighted by the angle it stands for, so that uneven steps do no harm.
    """
    step = np.gradient(np.deg2rad(angles_deg)).astype(np.float32)
    filtered = ramp_filter(images, cutoff) * step[:, None, None]
    matrix = projection_matrix(angles_deg, nz, images.shape[2])
    return back_project(matrix, filtered, nz)


def reconstruct_series(work: Path, name: str, apix: float) -> str:
    """Reconstruct and write one tomogram."""
    images, _ = files.read_mrc(files.stack_path(work, name, "_ali.mrc"))
    angles = files.read_angles(files.stack_path(work, name, ".tlt"))
    nz = conf.whole("TOMO_DIM_Z", at_least=2)
    volume = weighted_back_projection(images, angles, nz, conf.positive("WBP_CUTOFF", "1.0"))
    for older in (work / "reconstruction").glob(f"{name}_*Apx.mrc"):
        older.unlink()
    files.write_mrc(output(work, name, apix), volume, apix)
    return f"{volume.shape[2]}x{volume.shape[1]}x{nz}, {apix:.1f} A/px"


def output(work: Path, name: str, apix: float) -> Path:
    """Return where a series' tomogram goes."""
    return work / "reconstruction" / f"{name}_{apix:.2f}Apx.mrc"


def run(work: Path) -> None:
    """Reconstruct the tilt series that are not excluded and not done."""
    apix = conf.positive("PIXEL_SIZE_ANGSTROM")
    files.for_each(
        files.series_names(work),
        lambda name: reconstruct_series(work, name, apix),
        "reconstructed",
        output=lambda name: output(work, name, apix),
        inputs=lambda name: [files.stack_path(work, name, suffix) for suffix in ("_ali.mrc", ".tlt")],
        values=("PIXEL_SIZE_ANGSTROM", "TOMO_DIM_Z", "WBP_CUTOFF"),
    )
