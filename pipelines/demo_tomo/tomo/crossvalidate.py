"""Every fifth projection is left out of a reconstruction and compared with its re-projection.

Where the shifts are right, a volume predicts what it was not given. (The shifts of the left-out projections were
found from them, so this judges the alignment, not the volume's resolution. It says little of the tilt axis' angle:
neighbouring tilts agree about a wrong one.)
"""

import json
from pathlib import Path

import numpy as np

from tomo import files
from tomo.align import binned, transform
from tomo.geometry import project, projection_matrix
from tomo.reconstruct import edge_level, weighted_back_projection

EVERY = 5


def agreement(images: np.ndarray, angles_deg: np.ndarray, nz: int) -> np.ndarray:
    """Return the correlation of each left-out image (every fifth) with the re-projection of a volume from the rest.

    `images` is (tilts, y, x) with the tilt axis along y. The correlation is Pearson's, over all pixels.
    """
    left_out = np.arange(len(images)) % EVERY == EVERY // 2
    volume = weighted_back_projection(images[~left_out], angles_deg[~left_out], nz)
    predicted = project(projection_matrix(angles_deg[left_out], nz, images.shape[2]), volume)
    return np.array([np.corrcoef(a.ravel(), b.ravel())[0, 1] for a, b in zip(images[left_out], predicted, strict=True)])


def compare(work: Path, name: str) -> dict[str, float | int | str]:
    """Return the figures of one tilt series, aligned against unaligned.

    Both are turned alike, so that the tilt axis is upright, and interpolated alike; only the shifts differ. The
    thickness is that of the whole image, so that nothing of the specimen is cut off where it is not aligned.
    """
    raw, _ = files.read_mrc(files.stack_path(work, name))
    angles = files.read_angles(files.stack_path(work, name, ".tlt"))
    figures = json.loads(files.stack_path(work, name, "_align.json").read_text(encoding="utf-8"))
    shifts = np.loadtxt(files.stack_path(work, name, ".xf"), ndmin=2)[:, 4:]
    factor = max(1, raw.shape[2] // 128)
    levelled = raw - edge_level(raw)
    result: dict[str, float | int | str] = {"series": name, "every": EVERY}
    for kind, moved in (("aligned", shifts), ("unaligned", np.zeros_like(shifts))):
        images = binned(transform(levelled, figures["tilt_axis_deg"], moved, order=3), factor)
        found = agreement(images, angles, images.shape[2])
        result |= {f"{kind}_mean": round(float(found.mean()), 4), f"{kind}_lowest": round(float(found.min()), 4)}
        result["left_out"] = len(found)
    return result | {"residual_px": figures["residual_px"], "tilt_axis_deg": figures["tilt_axis_deg"]}


def run(work: Path, name: str, as_json: bool) -> None:
    """Print the correlations of left-out projections with their re-projections, aligned and unaligned."""
    figures = compare(work, name)
    if as_json:
        print(json.dumps(figures))
        return
    print(f"{name}: {figures['left_out']} projections against re-projections from the rest, mean (lowest) correlation")
    for kind in ("aligned", "unaligned"):
        print(f"{kind:>9} {figures[f'{kind}_mean']} ({figures[f'{kind}_lowest']})")
