"""Does the mask fit its map? Its outline over the sections, and the figures that betray a tight, hard or cut one."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runs.qc.arguments import add_apix
from runs.qc.errors import BadInput
from runs.qc.index import Index
from runs.qc.sections import central_sections, sections_png, shared_limits
from runs.qc.volumes import Plane, Volume, open_volume

INSIDE = 0.5
SOFT = (0.01, 0.99)
NARROW_EDGE_PX = 3.0
LARGEST_BOX = 640
SMOOTHING_PX = 1.5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `mask`."""
    parser.add_argument("--map", type=Path, required=True, help="the averaged map (MRC)")
    parser.add_argument("--mask", type=Path, required=True, help="its mask, values 0 to 1")
    add_apix(parser)
    parser.add_argument("--label", help="what the map is of, for the title and the item")


def render(args: argparse.Namespace, index: Index) -> None:
    """Draw the outline of the mask at 0.5 over the map's central XY, XZ and YZ.

    Figures: volume_fraction, edge_width_px, density_inside, touches_edge and the mask's range. Raises BadInput where
    either can't be read, they differ in size, or the mask holds no voxel above 0.5.
    """
    density, mask = open_volume(args.map, apix=args.apix), open_volume(args.mask, apix=args.apix)
    for note in density.notes:
        index.warn(note)
    if density.dims != mask.dims:
        raise BadInput(f"{args.mask} is {_size(mask)} voxels, {args.map} is {_size(density)}: they must be alike")
    if max(density.dims) > LARGEST_BOX:
        raise BadInput(f"{args.map} is {_size(density)} voxels; a map and its mask are shown up to {LARGEST_BOX} px")
    values, weights = density.whole(), mask.whole()
    if weights.max() < INSIDE:
        raise BadInput(f"{args.mask} masks nothing: no voxel is above {INSIDE}, the highest is {weights.max():g}")
    figures = mask_figures(values, weights)
    index.figures |= figures | {"pixel_size_angstrom": density.pixel_size_angstrom, "dims": list(density.dims)}
    _warn(figures, args.mask, index)
    size, sections = density.pixel_size_angstrom, central_sections(values)
    label = args.label or args.map.stem
    index.add(
        name="mask/outline",
        content=sections_png(sections, size, limits=shared_limits(sections), outlines=central_sections(weights)),
        suffix=".png",
        kind="image",
        title=f"{label}: mask over the map",
        caption=(
            f"outline of the mask at 0.5; it holds {100 * figures['volume_fraction']:.1f} % of the box and "
            f"{_percent(figures['density_inside'])} of the positive density, its edge is "
            f"{figures['edge_width_px']:.1f} px wide" + ("" if size is None else f"; {size:.4g} Å/px")
        ),
        item=args.label,
    )


def _size(volume: Volume) -> str:
    return "x".join(str(side) for side in volume.dims)


def _percent(share: float | None) -> str:
    return "an unknown part" if share is None else f"{100 * share:.0f} %"


def mask_figures(values: Plane, weights: NDArray[np.float32]) -> dict[str, Any]:
    """Figures of a mask (z, y, x; 0 to 1) over a map of the same shape.

    `edge_width_px` is the volume of the soft edge (0.01 to 0.99) over the area of the outline at 0.5. `density_inside`
    is the share of the map's positive density that the mask keeps; density is what stands more than 3 robust standard
    deviations above the background once the map is smoothed by 1.5 px (below it, where the map is dark inside the
    mask: `dark_density`). None where nothing does.
    """
    from scipy.ndimage import gaussian_filter

    inside = weights >= INSIDE
    smooth = gaussian_filter(values, SMOOTHING_PX)
    median, spread = _background(smooth[~inside] if not inside.all() else smooth)
    dark = bool(np.median(smooth[inside]) < median - 3 * spread)
    raised = (median - smooth) if dark else (smooth - median)
    signal = np.where(raised > 3 * spread, raised, 0)
    total = float(signal.sum(dtype=np.float64))
    faces = [inside[0], inside[-1], inside[:, 0], inside[:, -1], inside[:, :, 0], inside[:, :, -1]]
    return {
        "volume_fraction": float(inside.mean()),
        "edge_width_px": _edge_width(weights, inside),
        "density_inside": float((signal * np.clip(weights, 0, 1)).sum(dtype=np.float64)) / total if total > 0 else None,
        "dark_density": dark,
        "touches_edge": bool(any(face.any() for face in faces)),
        "min": float(weights.min()),
        "max": float(weights.max()),
    }


def _background(values: NDArray[np.float32]) -> tuple[float, float]:
    """Median, and standard deviation by the median absolute deviation, so that what the mask missed doesn't count."""
    sample = values.ravel()[:: max(1, values.size // 1_000_000)]
    median = float(np.median(sample))
    return median, float(1.4826 * np.median(np.abs(sample - median)))


def _edge_width(weights: NDArray[np.float32], inside: NDArray[np.bool_]) -> float:
    """Counted over the outline's area; faces of voxels overstate the area of a smooth surface by 3/2."""
    area = sum(int((np.diff(inside, axis=axis)).sum()) for axis in range(3)) * 2 / 3
    soft = int(((weights > SOFT[0]) & (weights < SOFT[1])).sum())
    return soft / area if area else 0.0


def _warn(figures: dict[str, Any], path: Path, index: Index) -> None:
    if figures["dark_density"]:
        index.warn("the map is darker than its background inside the mask: its contrast is that of raw tomograms")
    if figures["touches_edge"]:
        index.warn(f"{path.name} touches the edge of the box: what it holds there is cut off")
    if figures["edge_width_px"] < NARROW_EDGE_PX:
        index.warn(
            f"{path.name} has an edge only {figures['edge_width_px']:.1f} px wide: a hard edge correlates the half-maps"
        )
    if figures["min"] < -0.01 or figures["max"] > 1.01:
        index.warn(f"{path.name} has values from {figures['min']:.3g} to {figures['max']:.3g}; a mask goes from 0 to 1")
