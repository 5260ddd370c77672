"""The distribution of pick scores with a suggested threshold, and how precision and recall follow from it."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runs.qc.arguments import finite, positive
from runs.qc.errors import BadInput
from runs.qc.index import Index
from runs.qc.pictures import ACCENT, INK, QUIET, THRESHOLD, figure_png, new_figure
from runs.qc.stars import Agreement, Picks, match, pixel_size_of, read_picks, spacing_radius
from runs.qc.thresholds import Suggestion, density, suggest_threshold

CURVE_POINTS = 400


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `histogram`."""
    parser.add_argument("--picks", type=Path, nargs="+", required=True, help="picks (STAR), one file or more")
    parser.add_argument("--min-score", type=finite, help="the threshold in use, drawn beside the suggested one")
    parser.add_argument(
        "--truth", type=Path, nargs="+", default=[], help="known places (STAR), for precision and recall"
    )
    parser.add_argument("--diameter-angstrom", type=positive, help="particle diameter; a hit is within half of it")
    parser.add_argument("--apix", type=positive, metavar="A", help="pixel size of the coordinates in Å")


@dataclass(frozen=True, kw_only=True)
class Judged:
    """All picks of all series that have a truth: scores (n,), hits (n,), and how many true places there are."""

    scores: NDArray[np.float64]
    hits: NDArray[np.bool_]
    true: int

    def at(self, min_score: float) -> Agreement:
        """Agreement of the picks with at least this score."""
        keep = self.scores >= min_score
        return Agreement(hits=int(self.hits[keep].sum()), picked=int(keep.sum()), true=self.true)


def render(args: argparse.Namespace, index: Index) -> None:
    """Draw the histogram of all scores, and with truth the precision and recall against the threshold.

    Figures: suggested_min_score, method, n_picks, n_above (suggested), series (picks, above), and `truth` with the
    agreement at the suggested threshold and at the given one. Raises BadInput where no file gives a score.
    """
    series, errors = _read_all(args.picks, index)
    scored = [picks for picks in series if picks.scores is not None and len(picks)]
    if not scored:
        raise BadInput("no scores to draw: " + ("; ".join(errors.values()) or _no_scores(args.picks)))
    scores = np.concatenate([picks.scores for picks in scored if picks.scores is not None])
    suggestion = suggest_threshold(scores)
    index.figures |= {
        "suggested_min_score": suggestion.min_score,
        "method": suggestion.method,
        "explanation": suggestion.explanation,
        "min_score": args.min_score,
        "n_picks": int(scores.size),
        "n_above": int((scores >= suggestion.min_score).sum()),
        "n_above_min_score": None if args.min_score is None else int((scores >= args.min_score).sum()),
        "series": _by_series(scored, suggestion.min_score, args.min_score)
        | {k: {"error": v} for k, v in errors.items()},
    }
    if suggestion.mixture is not None:
        index.figures["separation"] = suggestion.mixture.separation
    drawn = _drawable(args.min_score, scores, index)
    _add_histogram(scores, suggestion, drawn, len(scored), index)
    if args.truth:
        _add_agreement(scored, suggestion, drawn, args, index)


def _drawable(given: float | None, scores: NDArray[np.float64], index: Index) -> float | None:
    """The threshold in use, or None where drawing it would squeeze the scores into a corner."""
    lower, upper = float(scores.min()), float(scores.max())
    if given is None or lower - (upper - lower) <= given <= upper + (upper - lower):
        return given
    index.warn(f"the threshold in use, {given:g}, lies far from all scores ({lower:.3g} to {upper:.3g}): not drawn")
    return None


def _read_all(paths: list[Path], index: Index) -> tuple[list[Picks], dict[str, str]]:
    found: list[Picks] = []
    errors: dict[str, str] = {}
    for path in paths:
        try:
            found += read_picks(path)
        except BadInput as error:
            errors[path.name] = str(error)
            index.warn(str(error))
            continue
        if all(picks.scores is None for picks in found if picks.path == path):
            index.warn(f"{path} has no score column and is left out of the histogram")
    return found, errors


def _no_scores(paths: list[Path]) -> str:
    return f"{', '.join(str(path) for path in paths)} hold no picks with a score column (rlnLCCmax or the like)"


def _by_series(scored: list[Picks], suggested: float, given: float | None) -> dict[str, dict[str, Any]]:
    counts: dict[str, dict[str, Any]] = {}
    for picks in scored:
        entry = counts.setdefault(picks.series, {"n_picks": 0, "n_above": 0})
        entry["n_picks"] += len(picks)
        entry["n_above"] += len(picks.above(suggested))
        if given is not None:
            entry["n_above_min_score"] = entry.get("n_above_min_score", 0) + len(picks.above(given))
    return dict(sorted(counts.items()))


def _add_histogram(
    scores: NDArray[np.float64], suggestion: Suggestion, given: float | None, n_files: int, index: Index
) -> None:
    figure = new_figure(760, 480)
    axes = figure.add_axes((0.12, 0.15, 0.85, 0.7))
    bins = int(np.clip(2 * scores.size ** (1 / 2), 12, 60))
    _, edges, _ = axes.hist(scores, bins=bins, color=ACCENT, alpha=0.35, edgecolor=ACCENT, linewidth=0.8)
    if suggestion.mixture is not None:
        x = np.linspace(edges[0], edges[-1], 400)
        for curve in density(suggestion.mixture, x) * scores.size * (edges[1] - edges[0]):
            axes.plot(x, curve, color=ACCENT, linewidth=2)
    _draw_threshold(axes, suggestion.min_score, f"suggested {suggestion.min_score:.3g}", dashed=False, height=1.02)
    if given is not None:
        _draw_threshold(axes, given, f"in use {given:g}", dashed=True, height=1.1)
    axes.set(xlabel="score", ylabel="picks")
    axes.locator_params(axis="y", nbins=6, integer=True)
    above = index.figures["n_above"]
    index.add(
        name="histogram/1-scores",
        content=figure_png(figure),
        suffix=".png",
        kind="curve",
        title="Scores of all picks",
        caption=f"{scores.size} picks, {n_files} tomograms; {above} reach the suggestion; {suggestion.explanation}",
    )


def _draw_threshold(axes: Any, score: float, label: str, *, dashed: bool, height: float) -> None:
    colour = QUIET if dashed else THRESHOLD
    axes.axvline(score, color=colour, linewidth=2.5, linestyle=(0, (4, 2)) if dashed else "-")
    lower, upper = axes.get_xlim()
    side = "left" if score < lower + 0.6 * (upper - lower) else "right"
    axes.annotate(label, (score, height), xycoords=("data", "axes fraction"), color=INK if dashed else colour,
                  ha=side, va="bottom", annotation_clip=False)  # fmt: skip


def _add_agreement(
    scored: list[Picks], suggestion: Suggestion, drawn: float | None, args: argparse.Namespace, index: Index
) -> None:
    truths = _read_truths(args.truth, index)
    pairs = _pairs(scored, truths, index)
    if not pairs:
        index.warn("the truth speaks of none of these tomograms; precision and recall are left out")
        index.figures["truth"] = {"error": "no series has both picks and truth"}
        return
    radius = _radius_px(pairs, args, index)
    if radius is None:
        index.figures["truth"] = {"error": "neither a particle diameter nor two true places to judge a hit by"}
        return
    judged = Judged(
        scores=np.concatenate([picks.scores for picks, _ in pairs if picks.scores is not None]),
        hits=np.concatenate([match(picks, truth, radius_px=radius) for picks, truth in pairs]),
        true=sum(len(truth) for _, truth in pairs),
    )
    best = _best(judged)
    index.figures["truth"] = {
        "hit_radius_px": radius,
        "at_suggested": judged.at(suggestion.min_score).figures(),
        "at_min_score": None if args.min_score is None else judged.at(args.min_score).figures(),
        "best_f1": judged.at(best).figures() | {"min_score": best},
    }
    _add_curve(judged, suggestion.min_score, drawn, best, index)


def _read_truths(paths: list[Path], index: Index) -> list[Picks]:
    found: list[Picks] = []
    for path in paths:
        try:
            found += read_picks(path)
        except BadInput as error:
            index.warn(str(error))
    return found


def _pairs(scored: list[Picks], truths: list[Picks], index: Index) -> list[tuple[Picks, Picks]]:
    """Picks and truth of the same series; a truth file whose name only begins with the series' counts as its own."""
    pairs = []
    for picks in scored:
        own = [truth for truth in truths if truth.series == picks.series]
        own = own or [truth for truth in truths if truth.series.startswith(picks.series + "_")]
        if len(scored) == len(truths) == 1:
            own = truths
        if len(own) == 1:
            pairs.append((picks, own[0]))
        else:
            index.warn(f"{picks.series}: {len(own)} truths fit; it is left out of precision and recall")
    return pairs


def _radius_px(pairs: list[tuple[Picks, Picks]], args: argparse.Namespace, index: Index) -> float | None:
    if args.diameter_angstrom is not None:
        apix = args.apix or pixel_size_of(pairs[0][0].path)
        if apix is not None:
            return float(args.diameter_angstrom / (2 * apix))
        index.warn("the particle diameter can't be used, since the pixel size of the coordinates isn't known (--apix)")
    radius = spacing_radius([truth for _, truth in pairs])
    if radius is not None:
        index.warn(f"a hit is taken to be within {radius:.2f} px, half the smallest distance between two true places")
    return radius


def _best(judged: Judged) -> float:
    """The threshold with the highest F1 against the truth, of the scores themselves."""
    candidates = np.unique(judged.scores)
    return float(candidates[int(np.argmax([judged.at(float(score)).f1 or 0.0 for score in candidates]))])


def _span_below(judged: Judged, best: float) -> str:
    """In words, the thresholds that choose as `best` does: down to the next lower score, which is one pick more."""
    lower = judged.scores[judged.scores < best]
    return f"above {lower.max():.3g} up to {best:.3g}" if lower.size else f"up to {best:.3g}"


def _add_curve(judged: Judged, suggested: float, given: float | None, best: float, index: Index) -> None:
    ends = [judged.scores.min(), judged.scores.max(), *([] if given is None else [given])]
    thresholds = np.linspace(min(ends), max(ends), CURVE_POINTS)
    agreements = [judged.at(float(threshold)) for threshold in thresholds]
    figure = new_figure(760, 480)
    axes = figure.add_axes((0.12, 0.15, 0.85, 0.7))
    for figure_name, colour, style, weight in (
        ("precision", ACCENT, "-", 3.0),
        ("recall", INK, (0, (5, 2)), 3.0),
        ("f1", QUIET, "-", 1.8),
    ):
        values = [np.nan if (value := getattr(one, figure_name)) is None else value for one in agreements]
        axes.plot(thresholds, values, color=colour, linestyle=style, linewidth=weight, label=_LABELS[figure_name])
    axes.set(xlabel="threshold (score)", ylabel="fraction", ylim=(0, 1.03), xlim=(thresholds[0], thresholds[-1]))
    axes.legend(loc="best", frameon=True, edgecolor="none", framealpha=0.9)
    _draw_threshold(axes, suggested, f"suggested {suggested:.3g}", dashed=False, height=1.02)
    if given is not None:
        _draw_threshold(axes, given, f"in use {given:g}", dashed=True, height=1.1)
    at = judged.at(suggested)
    index.add(
        name="histogram/2-precision-recall",
        content=figure_png(figure),
        suffix=".png",
        kind="curve",
        title="Precision and recall against the threshold",
        caption=(
            f"at the suggested {suggested:.3g}: precision {_percent(at.precision)}, recall {_percent(at.recall)} "
            f"({at.hits} of {at.true} true places); F1 is highest, {judged.at(best).f1 or 0.0:.2f}, for thresholds "
            f"{_span_below(judged, best)}"
        ),
    )


_LABELS = {"precision": "precision", "recall": "recall", "f1": "F1"}


def _percent(value: float | None) -> str:
    return "undefined" if value is None else f"{100 * value:.1f} %"
