"""Figures and the limits they are held against."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Figure:
    """One measured value and the most that it may be, in the same unit. `note` says how it was measured."""

    name: str
    value: float
    unit: str
    limit: float
    note: str = ""

    @property
    def ratio(self) -> float:
        return self.value / self.limit

    @property
    def ok(self) -> bool:
        return self.value <= self.limit


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest of `values` that at least `share` (0 to 1) of them do not exceed: the nearest-rank percentile."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * share) - 1)]


HEAD = f"{'figure':44}  {'value':>9}  {'limit':>8} {'unit':6} {'ratio':>6}"


def as_line(figure: Figure) -> str:
    """A line of the table: what, value, limit, unit, ratio, whether it holds, how it was measured."""
    numbers = f"{figure.value:9.2f}  {figure.limit:8.2f} {figure.unit:6} {figure.ratio:6.2f}"
    return f"{figure.name:44}  {numbers}  {'ok' if figure.ok else 'OVER':4}  {figure.note}".rstrip()


def as_json(figures: Sequence[Figure]) -> str:
    """{"figures": [{name, value, unit, limit, ratio, ok}]} on one line."""
    rows = [_row(each) for each in figures]
    return json.dumps({"figures": rows})


def from_json(line: str) -> list[Figure]:
    """The figures of such a line again; their notes are not in it."""
    return [Figure(row["name"], row["value"], row["unit"], row["limit"]) for row in json.loads(line)["figures"]]


def _row(figure: Figure) -> dict[str, object]:
    row = asdict(figure) | {"ratio": round(figure.ratio, 3), "ok": figure.ok}
    del row["note"]
    return row | {"value": round(figure.value, 3), "limit": round(figure.limit, 3)}
