"""Central sections and projections of a small cubic map, three panels in a row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runs.qc.pictures import contrast_limits, draw_scale_bar, figure_png, new_figure, show_section
from runs.qc.volumes import Plane

VIEWS = (("XY", "x", "y"), ("XZ", "x", "z"), ("YZ", "y", "z"))
WIDTH, LEFT, GAP, RIGHT, TOP, BOTTOM = 1080, 78, 78, 14, 40, 78


def central_sections(values: Plane) -> list[Plane]:
    """XY (y, x), XZ (z, x) and YZ (z, y) through the middle of a volume (z, y, x)."""
    nz, ny, nx = values.shape
    return [values[nz // 2], values[:, ny // 2], values[:, :, nx // 2]]


def projections(values: Plane) -> list[Plane]:
    """Sums along z, y and x, as XY (y, x), XZ (z, x) and YZ (z, y)."""
    return [values.sum(axis=0), values.sum(axis=1), values.sum(axis=2)]


def three_panels_png(
    rows: Sequence[tuple[str, Sequence[Plane]]],
    pixel_size_angstrom: float | None,
    outlines: Sequence[NDArray[Any]] | None = None,
) -> bytes:
    """Rows of XY, XZ, YZ pictures with one grey scale a row; `outlines` are masks (0 to 1), drawn at 0.5 in each panel."""
    sections = rows[0][1]
    widths, heights = [s.shape[1] for s in sections], [s.shape[0] for s in sections]
    scale = min((WIDTH - LEFT - RIGHT - 2 * GAP) / sum(widths), 420 / max(heights))
    row_height = TOP + BOTTOM + max(heights) * scale
    height = round(row_height * len(rows))
    figure = new_figure(WIDTH, height)
    for row, (title, planes) in enumerate(rows):
        limits = contrast_limits(np.concatenate([plane.ravel() for plane in planes]), low=0.5, high=99.8)
        x_px = LEFT + (WIDTH - LEFT - RIGHT - 2 * GAP - sum(widths) * scale) / 2
        for panel, (plane, (view, x, y)) in enumerate(zip(planes, VIEWS, strict=True)):
            bottom = height - row * row_height - TOP - plane.shape[0] * scale
            box = (x_px, bottom, plane.shape[1] * scale, plane.shape[0] * scale)
            axes = figure.add_axes((box[0] / WIDTH, box[1] / height, box[2] / WIDTH, box[3] / height))
            show_section(axes, plane, x=x, y=y, limits=limits)
            axes.set_title(f"{view} {title}".strip())
            if outlines is not None:
                _outline(axes, outlines[panel])
            draw_scale_bar(axes, plane.shape[1], pixel_size_angstrom)
            x_px += box[2] + GAP
    return figure_png(figure)


def _outline(axes: Any, mask: NDArray[Any]) -> None:
    if mask.max() < 0.5 or mask.min() >= 0.5:
        return
    height, width = mask.shape
    x, y = np.arange(width) + 0.5, np.arange(height) + 0.5
    axes.contour(x, y, mask, levels=[0.5], colors=["white"], linewidths=4.5, alpha=0.7)
    axes.contour(x, y, mask, levels=[0.5], colors=["#1f5fa8"], linewidths=2.5)
    axes.set(xlim=(0, width), ylim=(0, height))
