"""All tomograms of a set in one picture: where each stands by each metric."""

from __future__ import annotations

from typing import Any

import numpy as np

from runs.qc.pictures import ACCENT, QUIET, THRESHOLD, figure_png, new_figure
from runs.qc.verdicts import COMPARISONS, Comparison

STRIP, TOP, BOTTOM = 118, 12, 8
NAMED_AT_MOST = 6


def overview_png(series: dict[str, dict[str, Any]]) -> bytes:
    """One strip for each metric that at least one series has; `series` maps a name to its figures and its verdict."""
    rules = [rule for rule in COMPARISONS if any(figures.get(rule.figure) is not None for figures in series.values())]
    height = TOP + BOTTOM + STRIP * max(1, len(rules))
    figure = new_figure(760, height)
    for row, rule in enumerate(rules):
        bottom = (height - TOP - STRIP * (row + 1) + 62) / height
        axes = figure.add_axes((0.27, bottom, 0.69, 40 / height))
        _draw_strip(axes, rule, series)
    return figure_png(figure)


def _draw_strip(axes: Any, rule: Comparison, series: dict[str, dict[str, Any]]) -> None:
    known = {name: figures for name, figures in series.items() if figures.get(rule.figure) is not None}
    values = {name: float(figures[rule.figure]) for name, figures in known.items()}
    axes.axvline(float(np.median(list(values.values()))), color=QUIET, linewidth=1.5)
    named = 0
    for name, value in sorted(values.items(), key=lambda pair: pair[1]):
        good = known[name]["verdict"] == "good"
        axes.plot(value, 0, marker="o", markersize=10, color=ACCENT if good else THRESHOLD, alpha=0.55 if good else 1)
        if not good and named < NAMED_AT_MOST:
            axes.annotate(name, (value, 0), xytext=(0, 9), textcoords="offset points", ha="center", color=THRESHOLD,
                          fontsize=11)  # fmt: skip
            named += 1
    axes.set(yticks=[], ylim=(-1, 1.6))
    axes.margins(x=0.08)
    axes.locator_params(axis="x", nbins=5)
    axes.spines["left"].set_visible(False)
    axes.annotate(f"{rule.label}\n({rule.unit.strip()})" if rule.unit else rule.label, (-0.04, 0.2),
                  xycoords="axes fraction", ha="right", va="center")  # fmt: skip
