"""Where to cut a distribution of scores: between two Gaussians where there are two, else by Otsu's method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Method = Literal["two_gaussians", "otsu", "keep_all"]

FEWEST_SCORES = 8
OTSU_BINS = 128
EM_STEPS = 300
SEPARATED = 2.0  # Ashman's D: above 2 two Gaussians are cleanly separated (Ashman, Bird and Zepf 1994)
SMALLEST_WEIGHT = 0.02


@dataclass(frozen=True, kw_only=True)
class Mixture:
    """Two Gaussians in rising order of mean: weights, means, standard deviations."""

    weights: tuple[float, float]
    means: tuple[float, float]
    stds: tuple[float, float]

    @property
    def separation(self) -> float:
        """Ashman's D = sqrt(2) |m1 - m2| / sqrt(s1^2 + s2^2)."""
        return float(np.sqrt(2) * (self.means[1] - self.means[0]) / np.hypot(*self.stds))


@dataclass(frozen=True, kw_only=True)
class Suggestion:
    """A suggested threshold, how it was found, and in a sentence how far to trust it."""

    min_score: float
    method: Method
    explanation: str
    mixture: Mixture | None = None


def suggest_threshold(scores: NDArray[np.float64]) -> Suggestion:
    """Suggest a threshold for scores (n,), n at least 1, higher meaning better.

    Two Gaussians are fitted; where they are separated, the threshold is where both are equally likely. Where they are
    not, Otsu's threshold is given and called weak. Fewer than 8 scores, or all alike, are all kept.
    """
    lowest = float(scores.min())
    if scores.size < FEWEST_SCORES or np.ptp(scores) <= 1e-12 * max(1.0, abs(lowest)):
        return Suggestion(min_score=lowest, method="keep_all", explanation=_why_keep(scores))
    otsu = otsu_threshold(scores)
    mixture = fit_two_gaussians(scores, start=otsu)
    if mixture is not None and mixture.separation > SEPARATED and min(mixture.weights) >= SMALLEST_WEIGHT:
        return Suggestion(
            min_score=crossing(mixture),
            method="two_gaussians",
            explanation=f"two groups of scores, separation {mixture.separation:.1f}: cut where both are equally likely",
            mixture=mixture,
        )
    return Suggestion(
        min_score=otsu,
        method="otsu",
        explanation="the scores fall into no two clear groups: a weak guess by Otsu's method",
    )


def _why_keep(scores: NDArray[np.float64]) -> str:
    alike = "all scores are alike" if scores.size > 1 and np.ptp(scores) == 0 else f"only {scores.size} scores"
    return f"{alike}: all are kept"


def otsu_threshold(scores: NDArray[np.float64]) -> float:
    """The cut that makes the variance between the two sides largest (Otsu 1979), on a histogram of 128 bins."""
    counts, edges = np.histogram(scores, bins=OTSU_BINS)
    centres = (edges[:-1] + edges[1:]) / 2
    below, above = np.cumsum(counts), np.cumsum(counts[::-1])[::-1]
    mean_below = np.cumsum(counts * centres) / np.maximum(below, 1)
    mean_above = np.cumsum((counts * centres)[::-1])[::-1] / np.maximum(above, 1)
    between = below[:-1] * above[1:] * (mean_below[:-1] - mean_above[1:]) ** 2
    best = np.flatnonzero(between >= between.max() * (1 - 1e-12))
    return float(edges[1:][best].mean())


def fit_two_gaussians(scores: NDArray[np.float64], *, start: float) -> Mixture | None:
    """Expectation maximisation from the two sides of `start`; None where a side is empty or a Gaussian collapses."""
    upper = (scores >= start).astype(float)
    if upper.sum() < 2 or (1 - upper).sum() < 2:
        return None
    narrowest = 1e-3 * float(np.ptp(scores))
    for _ in range(EM_STEPS):
        share = np.stack([1 - upper, upper])
        total = share.sum(axis=1)
        if total.min() < 1.5:
            return None
        means = share @ scores / total
        stds = np.sqrt((share * (scores - means[:, None]) ** 2).sum(axis=1) / total)
        if stds.min() < narrowest:
            return None
        densities = total[:, None] * _bell(scores, means, stds)
        renewed = densities[1] / np.maximum(densities.sum(axis=0), 1e-300)
        if np.abs(renewed - upper).max() < 1e-6:
            break
        upper = renewed
    first, second = np.argsort(means)
    weights = total / total.sum()
    return Mixture(
        weights=(float(weights[first]), float(weights[second])),
        means=(float(means[first]), float(means[second])),
        stds=(float(stds[first]), float(stds[second])),
    )


def _bell(x: NDArray[np.float64], means: NDArray[np.float64], stds: NDArray[np.float64]) -> NDArray[np.float64]:
    z = (x - means[:, None]) / stds[:, None]
    return np.asarray(np.exp(-0.5 * z * z) / (stds[:, None] * np.sqrt(2 * np.pi)))


def density(mixture: Mixture, x: NDArray[np.float64]) -> NDArray[np.float64]:
    """The weighted densities of both Gaussians at x: (2, n)."""
    return np.array(mixture.weights)[:, None] * _bell(x, np.array(mixture.means), np.array(mixture.stds))


def crossing(mixture: Mixture) -> float:
    """The score between both means at which the weighted densities are equal; their valley if they never are."""
    x = np.linspace(*mixture.means, 2001)
    lower, upper = density(mixture, x)
    wins = np.flatnonzero(upper >= lower)
    return float(x[wins[0]]) if wins.size and wins[0] > 0 else float(x[int(np.argmin(lower + upper))])
