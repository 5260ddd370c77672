"""Where to cut a distribution of scores: under its highest group where groups are clear, else by Otsu's method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Method = Literal["two_gaussians", "three_gaussians", "otsu", "keep_all"]

FEWEST_SCORES = 8
FEWEST_FOR_THREE = 30
OTSU_BINS = 128
EM_STEPS = 300
SEPARATED = {2: 2.0, 3: 3.0}  # Ashman's D: above 2 two Gaussians are cleanly separated (Ashman, Bird and Zepf 1994)
SMALLEST_WEIGHT = {2: 0.02, 3: 0.05}
FEWEST_IN_GROUP = 4  # the best few of a background are no group of their own, however far they stray
STRONG_EVIDENCE = 6.0  # difference in BIC (Kass and Raftery 1995)
VALLEY = 0.7  # of the lower of both peaks
NARROWEST = 0.01  # of the range of scores: a Gaussian never gets narrower, so that ties don't make it collapse


@dataclass(frozen=True, kw_only=True)
class Mixture:
    """Gaussians in rising order of mean: weights, means, standard deviations; and the log-likelihood of the scores."""

    weights: tuple[float, ...]
    means: tuple[float, ...]
    stds: tuple[float, ...]
    log_likelihood: float

    @property
    def separation(self) -> float:
        """Ashman's D of the two highest Gaussians, sqrt(2) |m1 - m2| / sqrt(s1^2 + s2^2)."""
        return float(np.sqrt(2) * (self.means[-1] - self.means[-2]) / np.hypot(self.stds[-2], self.stds[-1]))

    def is_clear(self, count: int) -> bool:
        """Whether the highest group of `count` scores stands apart, over a valley, and is more than a few strays."""
        groups = len(self.means)
        if self.weights[-1] < max(SMALLEST_WEIGHT[groups], FEWEST_IN_GROUP / count):
            return False
        if self.separation <= SEPARATED[groups]:
            return False
        valley, *peaks = density(self, np.array([crossing(self), *self.means[-2:]])).sum(axis=0)
        return bool(valley < VALLEY * min(peaks))

    def bic(self, count: int) -> float:
        """Bayesian information criterion for `count` scores; lower is better."""
        return float((3 * len(self.means) - 1) * np.log(count) - 2 * self.log_likelihood)


@dataclass(frozen=True, kw_only=True)
class Suggestion:
    """A suggested threshold, how it was found, and in a sentence how far to trust it."""

    min_score: float
    method: Method
    explanation: str
    mixture: Mixture | None = None


def suggest_threshold(scores: NDArray[np.float64]) -> Suggestion:
    """Suggest a threshold for scores (n,), n at least 1, higher meaning better.

    Two Gaussians are fitted, and three: background, other particles and the species itself; three count only with
    strong evidence. Where the highest stands apart, the threshold is where it becomes as likely as the others together.
    Where it doesn't, Otsu's threshold is given and called weak. Fewer than 8 scores, or all alike, are all kept.
    """
    lowest = float(scores.min())
    if scores.size < FEWEST_SCORES or np.ptp(scores) <= 1e-12 * max(1.0, abs(lowest)):
        return Suggestion(min_score=lowest, method="keep_all", explanation=_why_keep(scores))
    mixture = _best_mixture(scores)
    if mixture is None:
        weak = "the scores fall into no clear groups: a weak guess by Otsu's method"
        return Suggestion(min_score=otsu_threshold(scores), method="otsu", explanation=weak)
    groups: Method = "two_gaussians" if len(mixture.means) == 2 else "three_gaussians"
    word = "two" if groups == "two_gaussians" else "three"
    return Suggestion(
        min_score=crossing(mixture),
        method=groups,
        explanation=f"{word} groups of scores, the highest {mixture.separation:.1f} apart (Ashman's D): cut under it",
        mixture=mixture,
    )


def _best_mixture(scores: NDArray[np.float64]) -> Mixture | None:
    two = fit_gaussians(scores, 2)
    if scores.size >= FEWEST_FOR_THREE:
        three = fit_gaussians(scores, 3)
        if three.is_clear(scores.size) and three.bic(scores.size) < two.bic(scores.size) - STRONG_EVIDENCE:
            return three
    return two if two.is_clear(scores.size) else None


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


def fit_gaussians(scores: NDArray[np.float64], groups: int) -> Mixture:
    """Fit so many Gaussians by expectation maximisation, from several starts; the likeliest fit."""
    spread = (np.arange(groups) + 0.5) / groups
    starts = [np.quantile(scores, spread), scores.min() + spread * np.ptp(scores)]
    if groups == 2:
        cut = otsu_threshold(scores)
        starts.append(np.array([scores[scores < cut].mean(), scores[scores >= cut].mean()]))
    return max((_fit_from(scores, start) for start in starts), key=lambda mixture: mixture.log_likelihood)


def _fit_from(scores: NDArray[np.float64], centres: NDArray[np.float64]) -> Mixture:
    groups = centres.size
    share = np.eye(groups)[:, np.abs(scores - centres[:, None]).argmin(axis=0)]
    last = -np.inf
    for _ in range(EM_STEPS):
        total = np.maximum(share.sum(axis=1), 1e-9)
        means = share @ scores / total
        stds = np.sqrt((share * (scores - means[:, None]) ** 2).sum(axis=1) / total)
        stds = np.maximum(stds, NARROWEST * np.ptp(scores))
        weights = total / total.sum()
        densities = weights[:, None] * _bell(scores, means, stds)
        together = np.maximum(densities.sum(axis=0), 1e-300)
        likelihood = float(np.log(together).sum())
        if likelihood - last < 1e-7 * abs(likelihood):
            break
        share, last = densities / together, likelihood
    order = np.argsort(means)
    return Mixture(
        weights=tuple(map(float, weights[order])),
        means=tuple(map(float, means[order])),
        stds=tuple(map(float, stds[order])),
        log_likelihood=likelihood,
    )


def _bell(x: NDArray[np.float64], means: NDArray[np.float64], stds: NDArray[np.float64]) -> NDArray[np.float64]:
    z = (x - means[:, None]) / stds[:, None]
    return np.asarray(np.exp(-0.5 * z * z) / (stds[:, None] * np.sqrt(2 * np.pi)))


def density(mixture: Mixture, x: NDArray[np.float64]) -> NDArray[np.float64]:
    """The weighted density of each Gaussian at x: (groups, n)."""
    return np.array(mixture.weights)[:, None] * _bell(x, np.array(mixture.means), np.array(mixture.stds))


def crossing(mixture: Mixture) -> float:
    """The score between the two highest means from which the highest outweighs the rest; else the valley between."""
    x = np.linspace(mixture.means[-2], mixture.means[-1], 2001)
    each = density(mixture, x)
    rest, highest = each[:-1].sum(axis=0), each[-1]
    wins = np.flatnonzero(highest >= rest)
    return float(x[wins[0]]) if wins.size and wins[0] > 0 else float(x[int(np.argmin(rest + highest))])
