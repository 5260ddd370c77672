"""Averaged maps for a refinement's sign-off: central sections and projections."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from runs.qc.arguments import add_apix
from runs.qc.errors import BadInput
from runs.qc.index import Index
from runs.qc.sections import central_sections, projections, sections_png, shared_limits
from runs.qc.volumes import open_volume

LARGEST_BOX = 640


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `averages`."""
    parser.add_argument("--map", type=Path, action="append", required=True, help="a map (MRC); may be given again")
    parser.add_argument(
        "--map2", type=Path, action="append", default=[], help="a map to compare with; may be given again"
    )
    add_apix(parser)


def render(args: argparse.Namespace, index: Index) -> None:
    """Draw each map; one that can't be read is a warning and an error figure, the rest goes on.

    Figures: `{"maps": {name: dims, pixel size, mean, std, min, max}}`. Raises BadInput when none could be drawn.
    """
    maps: dict[str, dict[str, Any]] = {}
    for path in [*args.map, *args.map2]:
        name = _free_name(path, maps)
        try:
            maps[name] = _render_map(name, path, args.apix, index)
        except (BadInput, MemoryError) as error:
            maps[name] = {"error": str(error) or f"{path}: not enough memory"}
            index.warn(f"{name}: {maps[name]['error']}")
    if all("error" in figures for figures in maps.values()):
        raise BadInput("no map could be drawn: " + "; ".join(figures["error"] for figures in maps.values()))
    index.figures["maps"] = maps


def _free_name(path: Path, taken: dict[str, Any]) -> str:
    candidates = [path.stem] + [f"{path.stem}-{number}" for number in range(2, len(taken) + 3)]
    return next(candidate for candidate in candidates if candidate not in taken)


def _render_map(name: str, path: Path, apix: float | None, index: Index) -> dict[str, Any]:
    volume = open_volume(path, apix=apix)
    nx, ny, nz = volume.dims
    if max(volume.dims) > LARGEST_BOX:
        raise BadInput(f"{path} is {nx}x{ny}x{nz} voxels; averages are drawn up to {LARGEST_BOX} px")
    values = volume.whole()
    if values.max() == values.min():
        raise BadInput(f"{path} is blank: every voxel is {float(values.flat[0]) + 0.0:g}")
    for note in volume.notes:
        index.warn(note)
    size = volume.pixel_size_angstrom
    at = f"{nx}x{ny}x{nz} voxels" + ("" if size is None else f", {size:.4g} Å/px")
    sections = central_sections(values)
    index.add(
        name=f"averages/{name}/1-sections",
        content=sections_png(sections, size, limits=shared_limits(sections)),
        suffix=".png",
        kind="image",
        title=f"{name}: central sections",
        caption=f"central XY, XZ and YZ on one grey scale; {at}",
    )
    index.add(
        name=f"averages/{name}/2-projections",
        content=sections_png(projections(values), size),
        suffix=".png",
        kind="image",
        title=f"{name}: projections",
        caption=f"means along z, y and x, each on its own grey scale; {at}",
    )
    return {
        "dims": [nx, ny, nz],
        "pixel_size_angstrom": size,
        "mean": float(values.mean(dtype="f8")),
        "std": float(values.std(dtype="f8")),
        "min": float(values.min()),
        "max": float(values.max()),
    }
