"""Phase 4a: a species' template and mask from its known density."""

from pathlib import Path

import numpy as np

from tomo import conf, files
from tomo.geometry import low_passed


def density(blobs: np.ndarray, box: int) -> np.ndarray:
    """Return the sum of Gaussians (z, y, x) of rows x, y, z, sigma, weight; pixels from voxel box // 2."""
    axis = np.arange(box) - box // 2
    volume = np.zeros((box, box, box))
    for x, y, z, sigma, weight in blobs:
        along = [np.exp(-((axis - place) ** 2) / (2 * sigma**2)) for place in (z, y, x)]
        volume += weight / (2 * np.pi * sigma**2) ** 1.5 * np.einsum("i,j,k->ijk", *along)
    return volume.astype(np.float32)


def sphere(box: int, radius_px: float, edge_px: float = 2.0) -> np.ndarray:
    """Return a ball (z, y, x) about voxel box // 2 whose edge falls from 1 to 0 over `edge_px` as a cosine does."""
    axis = np.arange(box) - box // 2
    distance = np.sqrt((axis**2)[:, None, None] + (axis**2)[None, :, None] + (axis**2)[None, None, :])
    fall = np.clip((distance - radius_px) / edge_px, 0, 1)
    return (0.5 + 0.5 * np.cos(np.pi * fall)).astype(np.float32)


def paths(work: Path, label: str) -> tuple[Path, Path]:
    """Return where a species' template and its mask are."""
    return work / "templates" / f"{label}_tm.mrc", work / "templates" / f"{label}_mask.mrc"


def run(work: Path) -> None:
    """Write the template and the mask of the species whose conf is in the environment.

    The template is low-passed: detail that it lacks can't come into the half-maps from it (Henderson, PNAS 110, 2013).
    """
    label, apix = conf.text("TM_LABEL"), conf.positive("PIXEL_SIZE_ANGSTROM")
    box, radius = conf.whole("SUBTOMO_BOX_SIZE", at_least=8), conf.positive("DIAMETER") / 2 / apix
    blobs = conf.blobs()
    blobs[:, :4] /= apix
    template, mask = paths(work, label)
    files.write_mrc(mask, sphere(box, radius), apix)
    period = conf.positive("TEMPLATE_LOWPASS_ANGSTROM") / apix
    files.write_mrc(template, low_passed(density(blobs, box), period), apix)
    print(f"{label} template of {box} pixels at {apix:g} A/px, mask of {2 * radius:.1f} pixels across", flush=True)
