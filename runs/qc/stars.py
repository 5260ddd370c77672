"""Picks from STAR files, and how they compare with a known truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runs.qc.errors import BadInput
from runs.qc.volumes import series_name

COORDINATES = ("rlnCoordinateX", "rlnCoordinateY", "rlnCoordinateZ")
SCORES = ("rlnLCCmax", "rlnAutopickFigureOfMerit", "wrpPeakScore", "rlnMaxValueProbDistribution", "score")
PIXEL_SIZES = ("rlnImagePixelSize", "rlnDetectorPixelSize", "rlnTomoTiltSeriesPixelSize")


@dataclass(frozen=True, kw_only=True)
class Picks:
    """Places of one tomogram: `xyz` (n, 3) in px of the tomogram, order x, y, z; `scores` (n,), None without them."""

    series: str
    xyz: NDArray[np.float64]
    scores: NDArray[np.float64] | None
    path: Path
    named_by_table: bool = False  # the series is that of rlnTomoName, not of the file's name

    def __len__(self) -> int:
        return len(self.xyz)

    def above(self, min_score: float | None) -> Picks:
        """Those with a score of at least `min_score`; all where there is no threshold or no score."""
        if min_score is None or self.scores is None:
            return self
        keep = self.scores >= min_score
        return replace(self, xyz=self.xyz[keep], scores=self.scores[keep])


def read_picks(path: Path) -> list[Picks]:
    """The picks of a STAR file by tomogram (rlnTomoName, or the file's own name where that column is missing).

    Raises BadInput, naming the file and the columns it has, where it isn't STAR or has no coordinates.
    """
    table = _table(path)
    xyz = np.stack([_numbers(table, column, path) for column in COORDINATES], axis=1)
    column = next((column for column in SCORES if column in table), None)
    scores = None if column is None else _numbers(table, column, path)
    if "rlnTomoName" not in table:
        return [Picks(series=_series_of(path), xyz=xyz, scores=scores, path=path)]
    names = np.array([series_name(str(name)) for name in table["rlnTomoName"]], dtype=object)
    return [
        Picks(
            series=name,
            xyz=xyz[names == name],
            scores=None if scores is None else scores[names == name],
            path=path,
            named_by_table=True,
        )
        for name in sorted(set(names))
    ]


def _series_of(path: Path) -> str:
    stem = series_name(path)
    for ending in ("_picks", "_particles", "_candidates", "_truth"):
        stem = stem.removesuffix(ending)
    return series_name(stem)


def _table(path: Path) -> Any:
    import starfile

    try:
        blocks = starfile.read(path, always_dict=True)
    except FileNotFoundError as error:
        raise BadInput(f"{path} is not there") from error
    except Exception as error:  # the parser raises whatever the text provokes; all of it means "not a STAR file"
        raise BadInput(f"{path} can't be read as a STAR file: {error}") from error
    tables = [_as_columns(block) for block in blocks.values()]
    found = next((table for table in tables if all(column in table for column in COORDINATES)), None)
    if found is None:
        columns = sorted({str(column) for table in tables for column in table})
        missing = [column for column in COORDINATES if column not in columns]
        raise BadInput(
            f"{path} has no column {', '.join(missing) or ', '.join(COORDINATES)} in one table; "
            f"its columns are: {', '.join(columns[:20]) or 'none'}"
        )
    return found


def _as_columns(block: Any) -> Any:
    """A loop block is a table already; a simple block with one row is `{label: value}`."""
    if isinstance(block, dict):
        return {key: [value] for key, value in block.items()}
    return block


def _numbers(table: Any, column: str, path: Path) -> NDArray[np.float64]:
    try:
        values = np.asarray(table[column], dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise BadInput(f"{path}, column {column}: {error}") from error
    if not np.isfinite(values).all():
        raise BadInput(f"{path}, column {column}: {int((~np.isfinite(values)).sum())} values are not finite numbers")
    return values


def pixel_size_of(path: Path) -> float | None:
    """The pixel size in Å that a STAR file itself gives, None where it gives none or several."""
    import starfile

    for block in starfile.read(path, always_dict=True).values():
        table = _as_columns(block)
        for column in PIXEL_SIZES:
            if column in table and len(sizes := set(map(float, table[column]))) == 1:
                return sizes.pop()
    return None


def match(picks: Picks, truth: Picks, *, radius_px: float) -> NDArray[np.bool_]:
    """Which picks are hits, in the order of `picks` (n,) bool.

    In order of falling score each pick takes the nearest true place within `radius_px` that no earlier one took, so
    that raising the threshold never turns a hit into a miss. Without scores the nearest pairs come first.
    """
    from scipy.spatial import cKDTree

    hits = np.zeros(len(picks), dtype=bool)
    if len(picks) == 0 or len(truth) == 0:
        return hits
    tree = cKDTree(truth.xyz)
    order = _order(picks, tree)
    taken: set[int] = set()
    for pick in order:
        near = [place for place in tree.query_ball_point(picks.xyz[pick], radius_px) if place not in taken]
        if near:
            distances = np.linalg.norm(truth.xyz[near] - picks.xyz[pick], axis=1)
            taken.add(near[int(distances.argmin())])
            hits[pick] = True
    return hits


def _order(picks: Picks, tree: Any) -> NDArray[np.intp]:
    if picks.scores is not None:
        return np.argsort(-picks.scores, kind="stable")
    return np.argsort(tree.query(picks.xyz)[0], kind="stable")


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Picks against truth: hits of `picked`, of `true` places."""

    hits: int
    picked: int
    true: int

    @property
    def precision(self) -> float | None:
        """Hits over picks; None without picks."""
        return self.hits / self.picked if self.picked else None

    @property
    def recall(self) -> float | None:
        """Hits over true places; None without any."""
        return self.hits / self.true if self.true else None

    @property
    def f1(self) -> float | None:
        """Harmonic mean of precision and recall, 2 hits / (picks + true places)."""
        total = self.picked + self.true
        return 2 * self.hits / total if total else None

    def figures(self) -> dict[str, Any]:
        """As figures of the index."""
        return {
            "hits": self.hits,
            "picked": self.picked,
            "true": self.true,
            "precision": self.precision,
            "recall": self.recall,
            "f1": self.f1,
        }


def spacing_radius(truths: Sequence[Picks]) -> float | None:
    """Half the smallest distance of two true places of a tomogram, px: within it no pick can mean both of them."""
    from scipy.spatial import cKDTree

    gaps = [cKDTree(truth.xyz).query(truth.xyz, k=2)[0][:, 1].min() for truth in truths if len(truth) > 1]
    smallest = min((float(gap) for gap in gaps if gap > 0), default=0.0)
    return smallest / 2 if smallest else None
