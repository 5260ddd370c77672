"""Picks drawn over their tomogram, for the gate at which a score threshold is set."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runs.qc.arguments import add_apix, finite, positive
from runs.qc.errors import BadInput
from runs.qc.index import Index
from runs.qc.pictures import THRESHOLD, contrast_limits, draw_scale_bar, figure_png, new_figure, show_section
from runs.qc.stars import Agreement, Picks, match, read_picks
from runs.qc.volumes import Plane, Volume, open_volume, series_name

QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
DRAWN_AT_MOST = 1500
DEFAULT_DIAMETER_SHARE = 0.03  # of the width, for the circles' size only, where no diameter is given
SLAB_DIAMETERS = 2  # thickness of the slab whose picks are drawn and whose slices are averaged


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `picks`."""
    parser.add_argument("--tomogram", type=Path, required=True, help="tomogram (MRC)")
    parser.add_argument("--picks", type=Path, required=True, help="picks (STAR; coordinates in px of the tomogram)")
    parser.add_argument("--min-score", type=finite, help="only picks with at least this score count")
    parser.add_argument("--truth", type=Path, help="known places (STAR), for precision and recall")
    parser.add_argument("--diameter-angstrom", type=positive, help="particle diameter; a hit is within half of it")
    add_apix(parser)
    parser.add_argument(
        "--coordinates-apix", type=positive, metavar="A", help="pixel size of the coordinates, if another"
    )


@dataclass(frozen=True, kw_only=True)
class Scene:
    """What is drawn: a tomogram, its picks and truth in its px, and the circles' diameter in px."""

    volume: Volume
    name: str
    picks: Picks
    hits: NDArray[np.bool_] | None
    missed: NDArray[np.float64]  # (n, 3) x, y, z of true places that no pick hit
    diameter_px: float


def render(args: argparse.Namespace, index: Index) -> None:
    """Draw the picks over XY and XZ slabs. Figures: n_picks, n_above, score quantiles, and with truth the agreement.

    Raises BadInput where the tomogram or the picks can't be read; a truth that can't be is a warning.
    """
    volume = open_volume(args.tomogram, apix=args.apix)
    for note in volume.notes:
        index.warn(note)
    name = series_name(args.tomogram)
    scale = _coordinate_scale(args.coordinates_apix, volume)
    every = _in_voxels(_of_tomogram(read_picks(args.picks), name, args.picks, index), volume, scale, index)
    chosen = every.above(args.min_score)
    if args.min_score is not None and every.scores is None:
        index.warn(f"{args.picks} has no score column, so that the threshold {args.min_score:g} leaves nothing out")
    diameter_px = _diameter_px(args.diameter_angstrom, volume, index)
    truth = _truth(args, volume, scale, index)
    index.figures |= {"series": name, "n_picks": len(every), "n_above": len(chosen), "min_score": args.min_score}
    index.figures["score_quantiles"] = score_quantiles(every.scores)
    hits = _compare(chosen, truth, diameter_px, args.diameter_angstrom is not None, index)
    missed = np.zeros((0, 3))
    if truth is not None and hits is not None:
        missed = truth.xyz[~match(truth, _only(chosen, hits), radius_px=diameter_px / 2)]
    scene = Scene(volume=volume, name=name, picks=chosen, hits=hits, missed=missed, diameter_px=diameter_px)
    _add_overlay(scene, index)


def score_quantiles(scores: NDArray[np.float64] | None) -> dict[str, float] | None:
    """Quantiles 0, 0.05, 0.25, 0.5, 0.75, 0.95 and 1 of the scores; None without scores."""
    if scores is None or scores.size == 0:
        return None
    return {f"{q:g}": float(value) for q, value in zip(QUANTILES, np.quantile(scores, QUANTILES), strict=True)}


def _only(picks: Picks, keep: NDArray[np.bool_]) -> Picks:
    return replace(picks, xyz=picks.xyz[keep], scores=None)


def _coordinate_scale(coordinates_apix: float | None, volume: Volume) -> float:
    if coordinates_apix is None:
        return 1.0
    if volume.pixel_size_angstrom is None:
        raise BadInput(
            f"{volume.path} has no known pixel size, so that coordinates at {coordinates_apix:g} Å can't be placed"
        )
    return coordinates_apix / volume.pixel_size_angstrom


def _of_tomogram(found: list[Picks], name: str, path: Path, index: Index) -> Picks:
    if not found:
        return Picks(series=name, xyz=np.zeros((0, 3)), scores=None, path=path)
    if len(found) == 1:
        if found[0].named_by_table and found[0].series != name:
            index.warn(f"{path} speaks of {found[0].series}, the tomogram is called {name}: are they the same?")
        return found[0]
    own = next((picks for picks in found if picks.series == name), None)
    if own is None:
        others = ", ".join(picks.series for picks in found[:10])
        raise BadInput(f"{path} holds no picks of {name}; it speaks of {others}")
    return own


def _in_voxels(picks: Picks, volume: Volume, scale: float, index: Index) -> Picks:
    """Coordinates in px of the tomogram; fractions of its size (as WARP writes them) are multiplied out."""
    xyz, dims = picks.xyz * scale, np.array(volume.dims)
    if len(xyz) > 1 and xyz.min() >= 0 and xyz.max() <= 1.0 and np.ptp(xyz) > 0:
        index.warn(f"{picks.path}: coordinates lie between 0 and 1 and are taken as fractions of the tomogram's size")
        xyz = xyz * dims
    outside = int(((xyz < -1) | (xyz > dims)).any(axis=1).sum())
    if outside:
        index.warn(
            f"{picks.path}: {outside} of {len(xyz)} places lie outside the tomogram of "
            f"{dims[0]}x{dims[1]}x{dims[2]} voxels; check the pixel size of the coordinates"
        )
    return replace(picks, xyz=xyz)


def _diameter_px(diameter_angstrom: float | None, volume: Volume, index: Index) -> float:
    if diameter_angstrom is not None and volume.pixel_size_angstrom is not None:
        return diameter_angstrom / volume.pixel_size_angstrom
    if diameter_angstrom is not None:
        index.warn(f"{volume.path.name}: without a pixel size the diameter can't be used; circles are of a chance size")
    return max(4.0, DEFAULT_DIAMETER_SHARE * volume.dims[0])


def _truth(args: argparse.Namespace, volume: Volume, scale: float, index: Index) -> Picks | None:
    if args.truth is None:
        return None
    try:
        found = _of_tomogram(read_picks(args.truth), series_name(args.tomogram), args.truth, index)
        return _in_voxels(found, volume, scale, index)
    except BadInput as error:
        index.warn(f"{error}; the picks are shown without the truth")
        index.figures["truth"] = {"error": str(error)}
        return None


def _compare(
    picks: Picks, truth: Picks | None, diameter_px: float, diameter_known: bool, index: Index
) -> NDArray[np.bool_] | None:
    if truth is None:
        return None
    if not diameter_known:
        index.warn(f"no particle diameter was given; a hit is within {diameter_px / 2:.1f} px")
    hits = match(picks, truth, radius_px=diameter_px / 2)
    agreement = Agreement(hits=int(hits.sum()), picked=len(picks), true=len(truth))
    index.figures["truth"] = agreement.figures() | {"hit_radius_px": diameter_px / 2}
    return hits


def _slab(centre: float, thickness: float, size: int) -> tuple[int, int]:
    start = int(np.clip(round(centre - thickness / 2), 0, max(0, size - 1)))
    return start, int(np.clip(round(centre + thickness / 2), start + 1, size))


def _add_overlay(scene: Scene, index: Index) -> None:
    nx, ny, nz = scene.volume.dims
    thickness = max(1.0, SLAB_DIAMETERS * scene.diameter_px)
    z = _slab(_busiest(scene.picks.xyz[:, 2], nz, thickness), thickness, nz)
    y = _slab(_busiest(scene.picks.xyz[:, 1], ny, thickness), thickness, ny)
    for view, axes, depth, section in (
        ("xy", ("x", "y"), z, _mean_xy(scene.volume, z)),
        ("xz", ("x", "z"), y, _mean_xz(scene.volume, y)),
    ):
        png, drawn = _overlay_png(scene, section, axes, depth)
        behind = "z" if view == "xy" else "y"
        index.add(
            name=f"{scene.name}/picks/{view}",
            content=png,
            suffix=".png",
            kind="image",
            title=f"{scene.name}: picks over {view.upper()}",
            caption=_caption(scene, drawn, behind, depth),
            item=scene.name,
        )


def _caption(scene: Scene, drawn: int, behind: str, depth: tuple[int, int]) -> str:
    what = f"{drawn} of {len(scene.picks)} picks, those with {behind} from {depth[0]} to {depth[1]} px"
    legend = "; circles coloured by score" if scene.picks.scores is not None else ""
    if scene.hits is not None:
        legend += "; dashed: a true place that no pick hit; crossed: a pick that hits none"
    size = scene.volume.pixel_size_angstrom
    return what + legend + ("" if size is None else f"; {size:.4g} Å/px")


def _busiest(values: NDArray[np.float64], size: int, thickness: float) -> float:
    """Where along an axis a slab of this thickness holds most picks; the middle where there are none."""
    if values.size == 0:
        return size / 2
    centres = np.linspace(0, size, 41)
    counts = [(np.abs(values - centre) <= thickness / 2).sum() - 1e-3 * abs(centre / size - 0.5) for centre in centres]
    return float(centres[int(np.argmax(counts))])


def _mean_xy(volume: Volume, z: tuple[int, int]) -> Plane:
    total = sum((volume.block(k, k + 1)[0] for k in range(*z)), np.zeros(volume.data.shape[1:], np.float32))
    return np.nan_to_num(np.asarray(total / (z[1] - z[0]), dtype=np.float32))


def _mean_xz(volume: Volume, y: tuple[int, int]) -> Plane:
    return np.nan_to_num(np.concatenate([slab[:, slice(*y)].mean(axis=1) for _, slab in volume.slabs()]))


def _overlay_png(
    scene: Scene, section: Plane, axes_names: tuple[str, str], depth: tuple[int, int]
) -> tuple[bytes, int]:
    height, width = section.shape
    across, up = ("xyz".index(axis) for axis in axes_names)
    behind = 3 - across - up
    scores = scene.picks.scores
    left, right, top, bottom, colour_bar = 82, 16, 16, 62, 92 if scores is not None and len(scene.picks) else 0
    scale = min((760 - left - right) / width, 760 / height)
    figure_height = round(top + height * scale + bottom + colour_bar)
    figure = new_figure(760, figure_height)
    box = (left / 760, (bottom + colour_bar) / figure_height, width * scale / 760, height * scale / figure_height)
    axes = figure.add_axes(box)
    show_section(axes, section, x=axes_names[0], y=axes_names[1], limits=contrast_limits(section, low=0.5, high=99.5))
    inside = _within(scene.picks.xyz, behind, depth)
    inside[np.flatnonzero(inside)[DRAWN_AT_MOST:]] = False
    centres = scene.picks.xyz[inside][:, (across, up)] + 0.5
    circles = _circles(axes, centres, scene.diameter_px, None if scores is None else scores[inside], scores)
    if scene.hits is not None:
        wrong = scene.picks.xyz[inside & ~scene.hits][:, (across, up)] + 0.5
        axes.plot(*wrong.T, linestyle="none", marker="x", color=THRESHOLD, markersize=9, markeredgewidth=2)
        missed = scene.missed[_within(scene.missed, behind, depth)][:, (across, up)] + 0.5
        _dashed(axes, missed, scene.diameter_px)
    axes.set(xlim=(0, width), ylim=(0, height))
    draw_scale_bar(axes, width, scene.volume.pixel_size_angstrom)
    if colour_bar:
        bar = figure.add_axes((left / 760, 50 / figure_height, width * scale / 760, 14 / figure_height))
        figure.colorbar(circles, cax=bar, orientation="horizontal").set_label("score", labelpad=2)
    return figure_png(figure), int(inside.sum())


def _within(xyz: NDArray[np.float64], axis: int, depth: tuple[int, int]) -> NDArray[np.bool_]:
    return np.asarray((xyz[:, axis] >= depth[0] - 0.5) & (xyz[:, axis] <= depth[1] + 0.5))


def _circles(axes: Any, centres: Any, diameter_px: float, scores: Any, every: Any) -> Any:
    from matplotlib.collections import EllipseCollection

    sizes = np.full(len(centres), diameter_px)
    circles = EllipseCollection(
        sizes, sizes, np.zeros(len(centres)), units="x", offsets=centres, offset_transform=axes.transData,
        facecolors="none", linewidths=2,
    )  # fmt: skip
    if scores is None:
        circles.set_edgecolor("#4fa3ff")
    else:
        circles.set(array=scores, cmap=_bright())
        circles.set_clim(*contrast_limits(every, low=0, high=100))
    axes.add_collection(circles)
    return circles


def _bright() -> Any:
    """Viridis without its dark end, which can't be seen on a tomogram."""
    import matplotlib
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("bright", matplotlib.colormaps["viridis"](np.linspace(0.4, 1, 128)))


def _dashed(axes: Any, centres: Any, diameter_px: float) -> None:
    from matplotlib.patches import Circle

    for x, y in centres:
        axes.add_patch(
            Circle((x, y), diameter_px / 2, fill=False, edgecolor="white", linewidth=2, linestyle=(0, (3, 2)))
        )
