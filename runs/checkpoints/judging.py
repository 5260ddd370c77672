"""Writes back which tilt series were kept and which left out."""

from collections.abc import Mapping
from typing import Any

from record.models import Decision
from runs.gatekeeping import author_of
from runs.models import Run, Species
from runs.services.series import exclude_series, include_series, judge_series


def apply_judgement(
    run: Run, rows: Mapping[str, Mapping[str, Any]], decision: Decision, species: Species | None = None
) -> None:
    """Exclude, bring back and note each tilt series as judged: name -> {"keep", "verdict", "note"}.

    For the run, or for one species' lane alone. Safe to repeat: what this decision has done already is not done again.
    """
    author = author_of(decision)
    for series in run.tilt_series.select_related("run").filter(name__in=list(rows)).order_by("name"):
        row = rows[series.name]
        change = include_series if row.get("keep", True) else exclude_series
        change(series=series, author=author, reason=str(row.get("note", "")), decision=decision, species=species)
        if "verdict" in row:
            judge_series(series=series, verdict=str(row["verdict"]), note=str(row.get("note", "")))


def describe_judgement(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """What it comes to, in words: "keeps 3 tilt series, excludes 1 (TS_003)"."""
    kept = [name for name, row in rows.items() if row.get("keep", True)]
    out = [name for name, row in rows.items() if not row.get("keep", True)]
    if not out:
        return f"keeps all {len(kept)} tilt series"
    if not kept:
        return f"excludes all {len(out)} tilt series: nothing is left to go on with"
    shown = ", ".join(out[:10]) + (" ..." if len(out) > 10 else "")
    return f"keeps {len(kept)} tilt series, excludes {len(out)} ({shown})"
