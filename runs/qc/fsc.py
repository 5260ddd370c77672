"""The resolution of an average: Fourier shell correlation of its half-maps, for the sign-off of a refinement."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runs.qc.arguments import add_apix
from runs.qc.errors import BadInput
from runs.qc.index import Index, table_tsv
from runs.qc.pictures import ACCENT, INK, QUIET, THRESHOLD, figure_png, new_figure
from runs.qc.resolution import (
    Crossing,
    Curve,
    correct,
    correlate,
    first_crossing,
    randomisation_shell,
    randomise_phases,
    shells,
)
from runs.qc.volumes import Plane, Volume, open_volume

SEED = 20130611
THRESHOLDS = (0.143, 0.5)  # Rosenthal and Henderson 2003; the older convention beside it
LARGEST_BOX = 640
SMALLEST_BOX = 8
IDENTICAL = 0.9999
CURVES = ("corrected", "masked", "unmasked", "randomised")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `fsc`."""
    parser.add_argument("--half1", type=Path, required=True, help="first half-map (MRC, unfiltered)")
    parser.add_argument("--half2", type=Path, required=True, help="second half-map")
    parser.add_argument("--mask", type=Path, help="mask with a soft edge, values 0 to 1")
    add_apix(parser)
    parser.add_argument(
        "--randomise-from",
        default="auto",
        metavar="A",
        help="resolution in Å from which phases are random, or auto: where the unmasked FSC falls below 0.8",
    )
    parser.add_argument("--label", help="what the maps are of, for the title and the item")


@dataclass(frozen=True, kw_only=True)
class Curves:
    """FSC by shell (n,), frequency in 1/Å (or 1/px); only `unmasked` without a mask."""

    frequency: Curve
    unmasked: Curve
    masked: Curve | None = None
    randomised: Curve | None = None
    corrected: Curve | None = None
    randomised_from: int | None = None

    @property
    def headline(self) -> str:
        """The curve that gives the resolution."""
        return "unmasked" if self.corrected is None else "corrected"

    def present(self) -> dict[str, Curve]:
        """The curves that there are, the one that counts first."""
        return {name: curve for name in CURVES if (curve := getattr(self, name)) is not None}


def render(args: argparse.Namespace, index: Index) -> None:
    """Draw the FSC and tabulate it.

    Figures: resolution_angstrom (first crossing of 0.143 by the curve that counts), by curve both crossings, whether
    one rises again, box, pixel size, shells, where randomisation begins. Raises BadInput where maps can't be compared.
    """
    halves = [open_volume(path, apix=args.apix) for path in (args.half1, args.half2)]
    for note in (note for volume in halves for note in volume.notes):
        index.warn(note)
    maps = [_cube(volume) for volume in halves]
    box, pixel_size = _agree(halves, index)
    mask = _mask(args, box, index)
    curves = compute_curves(maps[0], maps[1], mask, pixel_size or 1.0, _randomise_from(args.randomise_from, index))
    _warn_of_likeness(curves, args, index)
    unit = "px" if pixel_size is None else "Å"
    crossings = {name: _crossings(curves.frequency, curve) for name, curve in curves.present().items()}
    index.figures |= _figures(curves, crossings, box, pixel_size)
    _warn_of_crossings(curves, crossings[curves.headline], unit, index)
    label = args.label or args.half1.stem
    _add_picture(curves, crossings, unit, label, args.label, index)
    _add_table(curves, unit, label, args.label, index)


def compute_curves(
    half1: Plane, half2: Plane, mask: Plane | None, pixel_size: float, randomise_from: float | None
) -> Curves:
    """All curves of two cubic half-maps (z, y, x); `randomise_from` in the unit of `pixel_size`, None for auto.

    The seed is fixed: the same maps give the same curves.
    """
    from scipy import fft

    box = len(half1)
    shell, weight = shells(box)
    frequency = np.arange(box // 2 + 1) / (box * pixel_size)
    transforms = [fft.rfftn(half) for half in (half1, half2)]
    unmasked = correlate(transforms[0], transforms[1], shell, weight)
    if mask is None:
        return Curves(frequency=frequency, unmasked=unmasked)
    masked = correlate(fft.rfftn(half1 * mask), fft.rfftn(half2 * mask), shell, weight)
    start = randomisation_shell(unmasked) if randomise_from is None else _shell_of(randomise_from, box, pixel_size)
    generator = np.random.default_rng(SEED)
    scrambled = [
        fft.irfftn(
            randomise_phases(transform, shell, randomised_from=start, generator=generator),
            s=half1.shape,
            overwrite_x=True,
        )
        for transform in transforms
    ]
    randomised = correlate(fft.rfftn(scrambled[0] * mask), fft.rfftn(scrambled[1] * mask), shell, weight)
    return Curves(
        frequency=frequency,
        unmasked=unmasked,
        masked=masked,
        randomised=randomised,
        corrected=correct(masked, randomised, randomised_from=start),
        randomised_from=start,
    )


def _shell_of(resolution: float, box: int, pixel_size: float) -> int:
    return int(np.clip(round(box * pixel_size / resolution), 1, box // 2))


def _cube(volume: Volume) -> Plane:
    nx, ny, nz = volume.dims
    if not nx == ny == nz:
        raise BadInput(f"{volume.path} is {nx}x{ny}x{nz} voxels; an FSC needs cubic half-maps")
    if not SMALLEST_BOX <= nx <= LARGEST_BOX:
        raise BadInput(f"{volume.path} has a box of {nx} px; an FSC is computed for {SMALLEST_BOX} to {LARGEST_BOX}")
    values = volume.whole()
    if values.max() == values.min():
        raise BadInput(f"{volume.path} is blank: every voxel is {float(values.flat[0]) + 0.0:g}")
    return values - values.mean(dtype=np.float64).astype(np.float32)


def _agree(halves: list[Volume], index: Index) -> tuple[int, float | None]:
    first, second = halves
    if first.dims != second.dims:
        raise BadInput(f"{first.path} has a box of {first.dims[0]} px, {second.path} one of {second.dims[0]} px")
    sizes = [volume.pixel_size_angstrom for volume in halves]
    if sizes[0] is not None and sizes[1] is not None and abs(sizes[0] - sizes[1]) > 0.001 * sizes[0]:
        index.warn(
            f"the half-maps give different pixel sizes, {sizes[0]:g} and {sizes[1]:g} Å; the first one's is used"
        )
    return first.dims[0], sizes[0] if sizes[0] is not None else sizes[1]


def _mask(args: argparse.Namespace, box: int, index: Index) -> Plane | None:
    """The mask, or None with a warning where there is none that can be used."""
    if args.mask is None:
        index.warn("no mask was given: the resolution is that of the unmasked maps, solvent included")
        return None
    try:
        volume = open_volume(args.mask, apix=args.apix)
        if volume.dims != (box, box, box):
            raise BadInput(
                f"{args.mask} is {'x'.join(map(str, volume.dims))} voxels, the half-maps have a box of {box}"
            )
        values = volume.whole()
        if values.max() <= 0 or values.min() == values.max():
            raise BadInput(f"{args.mask} masks nothing: its values go from {values.min():g} to {values.max():g}")
    except BadInput as error:
        index.warn(f"{error}; the resolution is that of the unmasked maps")
        index.figures["mask"] = {"error": str(error)}
        return None
    return values


def _randomise_from(text: str, index: Index) -> float | None:
    if text == "auto":
        return None
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if value <= 0 or not np.isfinite(value):
        raise BadInput(f"--randomise-from {text!r} is neither auto nor a resolution in Å above 0")
    return value


def _crossings(frequency: Curve, curve: Curve) -> dict[float, Crossing]:
    return {threshold: first_crossing(frequency, curve, threshold) for threshold in THRESHOLDS}


def _figures(
    curves: Curves, crossings: dict[str, dict[float, Crossing]], box: int, pixel_size: float | None
) -> dict[str, Any]:
    known = pixel_size is not None
    start = curves.randomised_from
    headline = crossings[curves.headline]
    return {
        "resolution_angstrom": headline[0.143].resolution if known else None,
        "resolution_0_5_angstrom": headline[0.5].resolution if known else None,
        "resolution_px": headline[0.143].resolution / (pixel_size or 1.0),
        "curve": curves.headline,
        "reaches_nyquist": not headline[0.143].crosses,
        "rises_again": headline[0.143].rises_to is not None,
        "rises_to": headline[0.143].rises_to,
        "box_px": box,
        "pixel_size_angstrom": pixel_size,
        "nyquist_angstrom": 2 * pixel_size if pixel_size is not None else None,
        "shells": int(curves.frequency.size),
        "randomised_from_shell": start,
        "randomised_from_angstrom": None if start is None or not known else float(1 / curves.frequency[start]),
        "seed": SEED,
        "curves": {
            name: {
                "resolution_0_143_angstrom": each[0.143].resolution if known else None,
                "resolution_0_5_angstrom": each[0.5].resolution if known else None,
                "rises_again": each[0.143].rises_to is not None,
            }
            for name, each in crossings.items()
        },
    }


def _warn_of_likeness(curves: Curves, args: argparse.Namespace, index: Index) -> None:
    if np.nanmin(curves.unmasked) > IDENTICAL:
        index.warn(f"{args.half1} and {args.half2} hold the same map: their correlation says nothing about resolution")


def _warn_of_crossings(curves: Curves, headline: dict[float, Crossing], unit: str, index: Index) -> None:
    crossing = headline[0.143]
    if not crossing.crosses:
        index.warn(
            f"the {curves.headline} FSC stays above 0.143 up to Nyquist ({crossing.resolution:.4g} {unit}): "
            "the pixel size limits it, or the half-maps are not independent"
        )
    if crossing.rises_to is not None and crossing.rises_at:
        index.warn(
            f"the {curves.headline} FSC rises again to {crossing.rises_to:.2f} at {1 / crossing.rises_at:.4g} {unit} "
            f"after its first crossing at {crossing.resolution:.4g} {unit}; the first crossing counts"
        )


def _add_picture(
    curves: Curves,
    crossings: dict[str, dict[float, Crossing]],
    unit: str,
    label: str,
    item: str | None,
    index: Index,
) -> None:
    crossing = crossings[curves.headline][0.143]
    sign = "" if crossing.crosses else "Nyquist, "
    index.add(
        name="fsc/1-curve",
        content=_curve_png(curves, crossings, unit),
        suffix=".png",
        kind="curve",
        title=f"{label}: FSC",
        caption=(
            f"{sign}{crossing.resolution:.4g} {unit} at the first crossing of 0.143 by the {curves.headline} curve; "
            + ", ".join(f"{name} {each[0.143].resolution:.4g} {unit}" for name, each in crossings.items())
        ),
        item=item,
    )


_LINES: dict[str, dict[str, Any]] = {
    "corrected": {"color": ACCENT, "linewidth": 3.4, "zorder": 5},
    "masked": {"color": INK, "linewidth": 1.8},
    "unmasked": {"color": QUIET, "linewidth": 1.8, "linestyle": (0, (5, 2))},
    "randomised": {"color": QUIET, "linewidth": 1.8, "linestyle": (0, (1, 1.5))},
}


def _curve_png(curves: Curves, crossings: dict[str, dict[float, Crossing]], unit: str) -> bytes:
    figure = new_figure(760, 560)
    axes = figure.add_axes((0.12, 0.14, 0.84, 0.68))
    present = curves.present()
    for name, curve in present.items():
        style = _LINES[name] if len(present) > 1 else _LINES["corrected"] | {"color": ACCENT}
        text = "phase-randomised" if name == "randomised" else name
        axes.plot(curves.frequency, curve, label=text, **style)
    lowest = min(float(np.nanmin(curve)) for curve in present.values())
    axes.set(xlim=(0, curves.frequency[-1]), ylim=(max(-0.35, min(-0.05, lowest - 0.03)), 1.03))
    axes.set(xlabel=f"spatial frequency (1/{unit})", ylabel="FSC")
    axes.axhline(0, color=QUIET, linewidth=0.8)
    _draw_crossing(axes, crossings[curves.headline][0.143], unit)
    _label_resolutions(axes, unit)
    axes.legend(loc="upper right", frameon=True, edgecolor="none", framealpha=0.9)
    return figure_png(figure)


def _draw_crossing(axes: Any, crossing: Crossing, unit: str) -> None:
    axes.axhline(0.143, color=THRESHOLD, linewidth=2)
    axes.annotate("0.143", (0.995, 0.143), xycoords=("axes fraction", "data"), xytext=(0, 4),
                  textcoords="offset points", ha="right", color=THRESHOLD)  # fmt: skip
    axes.plot(crossing.frequency, 0.143, marker="o", color=THRESHOLD, markersize=9, zorder=6, clip_on=False)
    text = f"{crossing.resolution:.3g} {unit}" if crossing.resolution < 100 else f"{crossing.resolution:.0f} {unit}"
    right = crossing.frequency > 0.65 * axes.get_xlim()[1]
    axes.annotate(text, (crossing.frequency, 0.143), xytext=(-8 if right else 8, 8), textcoords="offset points",
                  ha="right" if right else "left", color=THRESHOLD, fontweight="bold",
                  bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1.5}, zorder=7)  # fmt: skip


def _label_resolutions(axes: Any, unit: str) -> None:
    """A second axis on top with the same places as resolutions."""
    top = axes.secondary_xaxis("top")
    ticks = [tick for tick in axes.get_xticks() if 0 < tick <= axes.get_xlim()[1] * (1 + 1e-9)]
    top.set_xticks(ticks, [f"{1 / tick:.3g}" for tick in ticks])
    top.set_xlabel(f"resolution ({unit})", labelpad=8)
    top.spines["top"].set_visible(True)


def _add_table(curves: Curves, unit: str, label: str, item: str | None, index: Index) -> None:
    present = curves.present()
    resolution = np.divide(
        1.0, curves.frequency, out=np.full(curves.frequency.size, np.inf), where=curves.frequency > 0
    )
    columns: list[NDArray[Any]] = [np.arange(curves.frequency.size), curves.frequency, resolution, *present.values()]
    suffix = "angstrom" if unit == "Å" else "px"
    index.add(
        name="fsc/2-table",
        content=table_tsv(
            ["shell", f"frequency_per_{suffix}", f"resolution_{suffix}", *(f"fsc_{name}" for name in present)],
            [list(row) for row in zip(*columns, strict=True)],
        ),
        suffix=".tsv",
        kind="table",
        title=f"{label}: FSC by shell",
        caption="shells one Fourier pixel wide; corrected = (masked - randomised) / (1 - randomised)",
        item=item,
    )
