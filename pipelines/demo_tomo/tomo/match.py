"""Phase 4b: template matching. At each voxel, the best local correlation over all rotations of the template."""

from pathlib import Path

import numpy as np

from tomo import conf, files
from tomo.geometry import even_rotations, rotate, wedge
from tomo.template import paths


def spread(box: np.ndarray, shape: tuple[int, int, int]) -> np.ndarray:
    """Return a volume of that shape with the box's centre voxel n // 2 at its origin, wrapped around."""
    volume = np.zeros(shape, dtype=np.float32)
    volume[tuple(slice(0, n) for n in box.shape)] = box
    return np.roll(volume, [-(n // 2) for n in box.shape], axis=(0, 1, 2))


def local_deviation(volume: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Return the standard deviation of the volume under the mask put at each voxel (Roseman, 2003)."""
    from scipy import fft

    weights = fft.rfftn(spread(mask / mask.sum(), volume.shape)).conj()
    mean = fft.irfftn(fft.rfftn(volume) * weights, volume.shape)
    square = fft.irfftn(fft.rfftn(volume**2) * weights, volume.shape)
    variance = np.maximum(square - mean**2, 0)
    return np.sqrt(np.maximum(variance, 1e-3 * variance.mean()))


def prepared(template: np.ndarray, mask: np.ndarray, missing: np.ndarray) -> np.ndarray:
    """Return the template as the tilts would show it: less the missing wedge, of mean 0 and norm 1 under the mask."""
    from scipy import fft

    seen = fft.irfftn(fft.rfftn(template) * missing, template.shape)
    seen = mask * (seen - (seen * mask).sum() / mask.sum())
    return seen / np.sqrt((seen**2 / np.maximum(mask, 1e-6)).sum() * mask.sum())


def match(
    volume: np.ndarray,
    template: np.ndarray,
    mask: np.ndarray,
    angles_deg: np.ndarray,
    rotations: np.ndarray,
    label: str,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the best local correlation (z, y, x; -1 to 1) and the index of the rotation that gave it."""
    from scipy import fft

    shape = tuple(fft.next_fast_len(n, real=True) for n in volume.shape)
    padded = np.full(shape, volume.mean(), dtype=np.float32)
    inner = tuple(slice(0, n) for n in volume.shape)
    padded[inner] = volume
    spectrum, deviation = fft.rfftn(padded - padded.mean()), local_deviation(padded - padded.mean(), mask)[inner]
    missing = wedge(template.shape, angles_deg)
    best, which = np.full(volume.shape, -np.inf, np.float32), np.zeros(volume.shape, np.int32)
    for index, rotation in enumerate(files.bar(rotations, len(rotations), label)):
        turned = spread(prepared(rotate(template, rotation), mask, missing), shape)
        found = fft.irfftn(spectrum * fft.rfftn(turned).conj(), shape)[inner]
        better = found > best
        np.copyto(best, found, where=better)
        which[better] = index
    return (best / deviation).astype(np.float32), which


def outputs(work: Path, label: str, name: str) -> tuple[Path, Path]:
    """Return where a tilt series' scores and the indices of its rotations go."""
    folder = work / "template_matching" / label
    return folder / f"{name}_scores.mrc", folder / f"{name}_angles.mrc"


def match_series(work: Path, label: str, name: str) -> str:
    """Match one tomogram and write scores and rotations, the scores last."""
    volume, apix = files.read_mrc(files.tomogram_path(work, name))
    template, mask = (files.read_mrc(path)[0] for path in paths(work, label))
    angles = files.read_angles(files.stack_path(work, name, ".tlt"))
    rotations = even_rotations(conf.positive("ANGULAR_STEP_DEG"))
    scores, which = match(volume, template, mask, angles, rotations, f"{name} {label}")
    scores_path, angles_path = outputs(work, label, name)
    files.write_mrc(angles_path, which, apix)
    files.write_mrc(scores_path, scores, apix)
    return f"{label}, {len(rotations)} rotations, best score {scores.max():.2f}"


def run(work: Path) -> None:
    """Match the tomograms that are not excluded and not done."""
    label = conf.text("TM_LABEL")
    files.for_each(
        files.series_names(work),
        lambda name: match_series(work, label, name),
        "matched",
        output=lambda name: outputs(work, label, name)[0],
        inputs=lambda name: [
            *paths(work, label),
            files.tomogram_path(work, name),
            files.stack_path(work, name, ".tlt"),
        ],
        values=("ANGULAR_STEP_DEG",),
    )
