"""XY, XZ and YZ of one volume on one scale: XZ under XY, YZ to its right, so that axes line up."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from runs.qc.pictures import ACCENT, contrast_limits, draw_scale_bar, figure_png, new_figure, show_section
from runs.qc.volumes import Plane

WIDTH, LEFT, GAP, RIGHT, TOP, BOTTOM = 760, 82, 92, 12, 34, 66
TALLEST = 900
THINNEST = 0.12  # of the larger side: a thinner panel than this is given that much room

Sections = tuple[Plane, Plane, Plane]


def central_sections(values: Plane) -> Sections:
    """XY (y, x), XZ (z, x) and YZ (z, y) through the middle of a volume (z, y, x)."""
    nz, ny, nx = values.shape
    return values[nz // 2], values[:, ny // 2], values[:, :, nx // 2]


def projections(values: Plane) -> Sections:
    """Means along z, y and x, as XY (y, x), XZ (z, x) and YZ (z, y)."""
    return values.mean(axis=0), values.mean(axis=1), values.mean(axis=2)


def sections_png(
    sections: Sections,
    pixel_size_angstrom: float | None,
    *,
    limits: tuple[float, float] | None = None,
    outlines: Sections | None = None,
) -> bytes:
    """Draw XY, XZ and YZ (shapes as of `central_sections`); with one slice in z only XY.

    `limits` are grey limits for all three, else each takes its own percentiles. `outlines` are sections of a mask (0 to
    1), drawn where it passes 0.5.
    """
    xy, xz, yz = sections
    ny, nx = xy.shape
    nz = len(xz)
    depth = max(float(nz), THINNEST * max(nx, ny)) if nz > 1 else 0.0
    scale = min((WIDTH - LEFT - RIGHT - (GAP if depth else 0)) / (nx + depth), TALLEST / (ny + depth))
    height = round(TOP + ny * scale + BOTTOM + (TOP + depth * scale + BOTTOM if depth else 0))
    figure = new_figure(WIDTH, height)
    xy_bottom = height - TOP - ny * scale
    panels = [("XY", xy, "x", "y", (LEFT, xy_bottom, nx, ny))]
    if depth:
        panels.append(("XZ", xz, "x", "z", (LEFT, BOTTOM, nx, depth)))
        panels.append(("YZ", yz.T, "z", "y", (LEFT + nx * scale + GAP, xy_bottom, depth, ny)))
    for view, plane, x, y, (left, bottom, wide, high) in panels:
        axes = figure.add_axes((left / WIDTH, bottom / height, wide * scale / WIDTH, high * scale / height))
        show_section(axes, plane, x=x, y=y, limits=limits)
        axes.set_title(view)
        if outlines is not None:
            mask = dict(zip(("XY", "XZ", "YZ"), outlines, strict=True))[view]
            _outline(axes, mask.T if view == "YZ" else mask)
        if view == "XY":
            draw_scale_bar(axes, nx, pixel_size_angstrom)
    return figure_png(figure, grey=outlines is None)


def _outline(axes: Any, mask: NDArray[Any]) -> None:
    if min(mask.shape) < 2 or mask.max() < 0.5 or mask.min() >= 0.5:
        return
    height, width = mask.shape
    x, y = np.arange(width) + 0.5, np.arange(height) + 0.5
    axes.contour(x, y, mask, levels=[0.5], colors=["white"], linewidths=4.5, alpha=0.7)
    axes.contour(x, y, mask, levels=[0.5], colors=[ACCENT], linewidths=2.5)
    axes.set(xlim=(0, width), ylim=(0, height))


def shared_limits(sections: Sections) -> tuple[float, float]:
    """Grey limits over all three, for sections of the same map."""
    return contrast_limits(np.concatenate([plane.ravel() for plane in sections]), low=0.5, high=99.8)
