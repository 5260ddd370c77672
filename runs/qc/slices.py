"""Tomograms as a person judges an alignment by: sections, a stack to slide through, metrics, a suggested verdict."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from runs.qc.arguments import add_apix, count, positive
from runs.qc.errors import BadInput
from runs.qc.index import Index, table_tsv
from runs.qc.metrics import Scan, around, central, contrast_db, mean_power, scan, streak_index
from runs.qc.overview import overview_png
from runs.qc.pictures import contrast_limits, grey_png, shrink, to_grey, with_scale_strip
from runs.qc.residuals import read_residuals
from runs.qc.sections import sections_png
from runs.qc.verdicts import SMALLEST_SET, judge
from runs.qc.volumes import Plane, Volume, open_volume, series_name

STACK_BYTES = 1_350_000  # a tomogram, so that a gate of four stays under 6 MB
STACK_THICKNESS = 5  # slices averaged at most
# width in px and number of greys, richest first
ENCODINGS = (
    (512, 256),
    (512, 64),
    (512, 32),
    (448, 32),
    (384, 32),
    (384, 16),
    (352, 12),
    (320, 12),
    (288, 10),
    (256, 10),
)
SMALLEST_SHOWN_PX = 256
COLUMNS = ("dims", "pixel_size_angstrom", "mean", "std", "min", "max", "contrast_db", "streak_index", "residual_px")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `slices`."""
    parser.add_argument("volumes", type=Path, nargs="+", metavar="VOLUME", help="tomograms (MRC)")
    add_apix(parser)
    parser.add_argument("--n-slices", type=count, default=32, help="XY slices in the stack (default 32)")
    parser.add_argument("--residuals", type=Path, help="alignment residuals in px by series, TSV or JSON")
    parser.add_argument(
        "--max-residual-px",
        type=positive,
        default=3.0,
        help="residual above which a series is suspect, twice: bad (default 3)",
    )


def render(args: argparse.Namespace, index: Index) -> None:
    """Render every tomogram; one that can't be read is a warning and an error figure, the rest goes on.

    Figures: `{"series": {name: metrics + verdict + reason}}`. Raises BadInput when no tomogram could be rendered.
    """
    residuals = _residuals(args.residuals, index)
    series: dict[str, dict[str, Any]] = {}
    errors: dict[str, str] = {}
    for name, path in _named(args.volumes, index).items():
        try:
            series[name] = _render_tomogram(name, path, args, index)
            series[name]["residual_px"] = residuals.get(series_name(path))
        except (BadInput, MemoryError) as error:
            errors[name] = str(error) or f"{path}: not enough memory"
            index.warn(f"{name}: {errors[name]}")
    if not series:
        raise BadInput("no tomogram could be rendered: " + "; ".join(errors.values()))
    for name, finding in judge(series, max_residual_px=args.max_residual_px).items():
        series[name] |= {"verdict": finding.level, "reason": finding.reason}
    failed = {name: {"error": text, "verdict": "bad", "reason": "unreadable"} for name, text in errors.items()}
    index.figures["series"] = dict(sorted((series | failed).items()))
    _add_overview(series, index)
    _add_table(index)


def _residuals(path: Path | None, index: Index) -> dict[str, float]:
    if path is None:
        return {}
    try:
        return read_residuals(path)
    except BadInput as error:
        index.warn(f"{error}; the verdicts do without residuals")
        return {}


def _named(paths: list[Path], index: Index) -> dict[str, Path]:
    """Series names of the files, in order; a second file of the same name gets a number, and is spoken of."""
    named: dict[str, Path] = {}
    for path in paths:
        name = series_name(path)
        if name in named:
            number = next(count for count in range(2, len(paths) + 2) if f"{name}_{count}" not in named)
            index.warn(f"{path} is called {name}_{number}, since {named[name]} is {name} already")
            name = f"{name}_{number}"
        named[name] = path
    return named


def _render_tomogram(name: str, path: Path, args: argparse.Namespace, index: Index) -> dict[str, Any]:
    volume = open_volume(path, apix=args.apix)
    for note in volume.notes:
        index.warn(note)
    scanned = scan(volume)
    if scanned.count == 0:
        raise BadInput(f"{path} holds no finite voxel: all {scanned.not_finite} are NaN or infinity")
    _add_sections(name, volume, scanned, index)
    _add_stack(name, volume, args.n_slices, index)
    return _metrics(volume, scanned)


def _metrics(volume: Volume, scanned: Scan) -> dict[str, Any]:
    power = mean_power(volume) if scanned.maximum > scanned.minimum else None
    return {
        "dims": list(volume.dims),
        "pixel_size_angstrom": volume.pixel_size_angstrom,
        "mean": scanned.mean,
        "std": scanned.std,
        "min": scanned.minimum,
        "max": scanned.maximum,
        "not_finite": scanned.not_finite,
        "constant_slices": scanned.constant_slices,
        "contrast_db": None if power is None else contrast_db(power),
        "streak_index": None if power is None else streak_index(power),
    }


def _add_sections(name: str, volume: Volume, scanned: Scan, index: Index) -> None:
    """XY with XZ under it and YZ to its right, on one scale; with one slice only XY."""
    nx, ny, nz = volume.dims
    middle = central(nz)
    xy = volume.block(middle.start, middle.stop).mean(axis=0)
    index.add(
        name=f"{name}/central",
        content=sections_png((xy, scanned.xz, scanned.yz), volume.pixel_size_angstrom),
        suffix=".png",
        kind="image",
        title=f"{name}: central sections",
        caption=(
            f"XY, XZ, YZ through the middle, mean of {_thickness(nz)}, {_thickness(ny)} and {_thickness(nx)} planes; "
            f"{nx}x{ny}x{nz} voxels{_at(volume.pixel_size_angstrom)}"
        ),
        item=name,
    )


def _thickness(size: int) -> int:
    return central(size).stop - central(size).start


def _at(pixel_size_angstrom: float | None) -> str:
    return "" if pixel_size_angstrom is None else f", {pixel_size_angstrom:.4g} Å/px"


def _add_stack(name: str, volume: Volume, n_slices: int, index: Index) -> None:
    """XY slices evenly through the volume, grey limits common to all, so that the slider shows real differences."""
    nx, _, nz = volume.dims
    positions = np.unique(np.linspace(0, nz - 1, max(1, min(n_slices, nz))).round().astype(int))
    thickness = max(1, min(STACK_THICKNESS, nz // len(positions)))
    planes = [
        shrink(volume.block(part.start, part.stop).mean(axis=0), ENCODINGS[0][0])
        for part in (around(int(z), thickness=thickness, size=nz) for z in positions)
    ]
    limits = contrast_limits(np.concatenate([plane.ravel() for plane in planes]))
    encoding = _encoding(planes[len(planes) // 2], limits, budget=STACK_BYTES // len(planes))
    averaged = f", mean of {thickness} slices" if thickness > 1 else ""
    for position, (z, plane) in enumerate(zip(positions, planes, strict=True), start=1):
        grey = with_scale_strip(
            _grey(plane, limits, encoding), shown_px=nx, pixel_size_angstrom=volume.pixel_size_angstrom
        )
        index.add(
            name=f"{name}/xy/{position:03d}",
            content=grey_png(grey),
            suffix=".png",
            kind="stack",
            title=f"{name}: XY slices",
            caption=f"XY, slice {z + 1} of {nz}{averaged}{_at(volume.pixel_size_angstrom)}",
            group=f"{name}/xy",
            index=position,
            item=name,
        )


def _encoding(plane: Plane, limits: tuple[float, float], *, budget: int) -> tuple[int, int]:
    """The richest (width, number of greys) with which a slice takes no more bytes than the budget."""
    return next(
        (encoding for encoding in ENCODINGS if len(grey_png(_grey(plane, limits, encoding))) <= budget), ENCODINGS[-1]
    )


def _grey(plane: Plane, limits: tuple[float, float], encoding: tuple[int, int]) -> Any:
    width, levels = encoding
    grey = to_grey(shrink(plane, width), limits, levels=levels)
    factor = max(1, -(-SMALLEST_SHOWN_PX // grey.shape[1]))
    return grey.repeat(factor, axis=0).repeat(factor, axis=1)


def _add_overview(series: dict[str, dict[str, Any]], index: Index) -> None:
    """One strip a metric with a dot for each tomogram, where there is a set to compare."""
    if len(series) < SMALLEST_SET:
        return
    index.add(
        name="overview",
        content=overview_png(series),
        suffix=".png",
        kind="curve",
        title="All tomograms, metric by metric",
        caption="a dot a tomogram, a line at the set's median; named are those suggested as suspect or bad",
    )


def _add_table(index: Index) -> None:
    rows = [
        [name, figures.get("verdict"), *(_cell(figures.get(column)) for column in COLUMNS)]
        + [figures.get("error") or figures.get("reason")]
        for name, figures in index.figures["series"].items()
    ]
    index.add(
        name="metrics",
        content=table_tsv(["series", "suggested", *COLUMNS, "why"], rows),
        suffix=".tsv",
        kind="table",
        title="Metrics of all tomograms",
        caption=(
            "contrast: spectral power at 0.02 to 0.12 cycles/px over that at 0.35 to 0.5; "
            "streak index: strongest 5° sector of the spectrum over the median one"
        ),
    )


def _cell(value: Any) -> Any:
    if isinstance(value, list):
        return "x".join(str(part) for part in value)
    return f"{value:.4g}" if isinstance(value, float) else value
