"""A suggestion for each tomogram: absolute rules, then a comparison with the others of the set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

Level = Literal["good", "suspect", "bad"]
RANK: dict[Level, int] = {"good": 0, "suspect": 1, "bad": 2}

SUSPECT_Z = 3.5  # Iglewicz and Hoaglin 1993: modified z-scores beyond 3.5 are outliers
BAD_Z = 8.0
SMALLEST_SET = 3
CONSTANT_SLICES_SUSPECT, CONSTANT_SLICES_BAD = 0.1, 0.5
LOWEST_CONTRAST_DB = 0.5
HIGHEST_STREAK_INDEX = 6.0
NEARLY_CONSTANT = 1e-6


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """How one figure is compared with its set. `smallest_mad` keeps a set of near-equal values from crying wolf."""

    figure: str
    label: str
    unit: str
    worse: Literal["low", "high", "both"]
    smallest_mad: float
    scale: Callable[[float], float] = float


def _log10(value: float) -> float:
    return float(np.log10(max(value, 1e-30)))


COMPARISONS = (
    Comparison(figure="contrast_db", label="contrast", unit=" dB", worse="low", smallest_mad=0.5),
    Comparison(figure="std", label="std", unit="", worse="both", smallest_mad=0.04, scale=_log10),
    Comparison(figure="streak_index", label="streak index", unit="", worse="high", smallest_mad=0.04, scale=_log10),
    Comparison(figure="residual_px", label="alignment residual", unit=" px", worse="high", smallest_mad=0.15),
)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A level with its reason; of several findings about one figure the gravest counts."""

    level: Level
    reason: str
    about: str = ""


def judge(series: dict[str, dict[str, Any]], *, max_residual_px: float) -> dict[str, Finding]:
    """Suggest good, suspect or bad for each series, with a one-line reason.

    `series` maps a name to its figures (dims, min, max, std, contrast_db, streak_index, residual_px, ...); what is
    None is left out. One outlier against the set makes suspect; a gross one, or two, make bad.
    """
    findings: dict[str, list[Finding]] = {
        name: list(_absolute(figures, max_residual_px)) for name, figures in series.items()
    }
    for name, figures in series.items():
        findings[name] += _dimensions(figures, series)
        findings[name] += [found for rule in COMPARISONS if (found := _against_set(name, rule, series))]
    return {name: _sum_up(found) for name, found in findings.items()}


def _sum_up(findings: list[Finding]) -> Finding:
    if not findings:
        return Finding(level="good", reason="nothing stands out")
    gravest: dict[str, Finding] = {}
    for finding in sorted(findings, key=lambda finding: -RANK[finding.level]):
        gravest.setdefault(finding.about, finding)
    level: Level = "bad" if len(gravest) > 1 else next(iter(gravest.values())).level
    return Finding(level=level, reason="; ".join(finding.reason for finding in gravest.values()))


def _absolute(figures: dict[str, Any], max_residual_px: float) -> list[Finding]:
    spread, largest = figures["std"], max(abs(figures["min"]), abs(figures["max"]))
    if figures["max"] == figures["min"]:
        return [Finding(level="bad", about="std", reason=f"blank: every voxel is {figures['min'] + 0.0:g}")]
    found = []
    if spread < NEARLY_CONSTANT * largest:
        found.append(
            Finding(level="bad", about="std", reason=f"nearly constant: std {spread:.3g} at values up to {largest:.3g}")
        )
    if figures["not_finite"]:
        found.append(
            Finding(
                level="bad",
                about="not_finite",
                reason=f"{figures['not_finite']} voxels are not finite (NaN or infinity)",
            )
        )
    found += _constant_slices(figures)
    if (contrast := figures["contrast_db"]) is not None and contrast < LOWEST_CONTRAST_DB:
        found.append(
            Finding(
                level="suspect", about="contrast_db", reason=f"contrast {contrast:.1f} dB: like noise without structure"
            )
        )
    if (streaks := figures["streak_index"]) is not None and streaks > HIGHEST_STREAK_INDEX:
        found.append(
            Finding(
                level="suspect",
                about="streak_index",
                reason=f"streaks: one direction holds {streaks:.1f} times the usual power",
            )
        )
    residual = figures.get("residual_px")
    if residual is not None and residual > max_residual_px:
        level: Level = "bad" if residual > 2 * max_residual_px else "suspect"
        found.append(
            Finding(
                level=level,
                about="residual_px",
                reason=f"alignment residual {residual:.2f} px, limit {max_residual_px:g}",
            )
        )
    return found


def _constant_slices(figures: dict[str, Any]) -> list[Finding]:
    share = figures["constant_slices"] / figures["dims"][2]
    if share <= CONSTANT_SLICES_SUSPECT:
        return []
    level: Level = "bad" if share > CONSTANT_SLICES_BAD else "suspect"
    return [
        Finding(
            level=level,
            about="constant_slices",
            reason=f"{figures['constant_slices']} of {figures['dims'][2]} slices are empty",
        )
    ]


def _dimensions(figures: dict[str, Any], series: dict[str, dict[str, Any]]) -> list[Finding]:
    """Compare width and height with the set's most frequent; thickness may well differ between lamellae."""
    counts = Counter(tuple(other["dims"][:2]) for other in series.values())
    usual, times = counts.most_common(1)[0]
    own = tuple(figures["dims"][:2])
    if own == usual or times < 2:
        return []
    return [
        Finding(
            level="suspect", about="dims", reason=f"{own[0]}x{own[1]} in x, y where the set has {usual[0]}x{usual[1]}"
        )
    ]


def _against_set(name: str, rule: Comparison, series: dict[str, dict[str, Any]]) -> Finding | None:
    values = {
        key: rule.scale(figures[rule.figure]) for key, figures in series.items() if figures.get(rule.figure) is not None
    }
    if name not in values or len(values) < SMALLEST_SET:
        return None
    z = robust_z(values[name], list(values.values()), smallest_mad=rule.smallest_mad)
    badness = {"low": -z, "high": z, "both": abs(z)}[rule.worse]
    if badness < SUSPECT_Z:
        return None
    own = series[name][rule.figure]
    usual = np.median([figures[rule.figure] for figures in series.values() if figures.get(rule.figure) is not None])
    reason = f"{rule.label} {own:.3g}{rule.unit}, the set's median is {usual:.3g} (robust z {z:+.1f})"
    return Finding(level="bad" if badness >= BAD_Z else "suspect", about=rule.figure, reason=reason)


def robust_z(value: float, values: list[float], *, smallest_mad: float) -> float:
    """Modified z-score 0.6745 (x - median) / MAD (Iglewicz and Hoaglin 1993), the MAD at least `smallest_mad`."""
    median = float(np.median(values))
    mad = float(np.median(np.abs(np.array(values) - median)))
    return 0.6745 * (value - median) / max(mad, smallest_mad)
