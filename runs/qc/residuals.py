"""Alignment residuals from the table that the alignment step wrote."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

from runs.qc.errors import BadInput
from runs.qc.volumes import series_name

COLUMNS = ("residual_px", "mean_residual_px", "shift_residual_px", "alignment_residual_px", "residual")
NAMES = ("series", "tilt_series", "TS", "name", "tomogram", "item")


def read_residuals(path: Path) -> dict[str, float]:
    """Residual in px by tilt series, from TSV with a header line, or JSON.

    JSON is `{"TS_001": 0.8}` or `{"TS_001": {"residual_px": 0.8}}`, either also under the key "series".
    Raises BadInput, naming the file, where it can't be read or has no residual column.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} can't be read as a table of residuals: {error}") from error
    found = _from_json(text, path) if text.lstrip().startswith("{") else _from_tsv(text, path)
    return {series_name(name): value for name, value in found.items() if math.isfinite(value)}


def _from_json(text: str, path: Path) -> dict[str, float]:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise BadInput(f"{path} is not valid JSON: {error}") from error
    entries = document.get("series", document)
    if not isinstance(entries, dict):
        raise BadInput(f"{path} has no object of tilt series with their residuals")
    values = {name: _residual(entry) for name, entry in entries.items()}
    found = {name: value for name, value in values.items() if value is not None}
    if not found:
        raise BadInput(f"{path} gives no residual: expected a number or one of {', '.join(COLUMNS)} for each series")
    return found


def _residual(entry: Any) -> float | None:
    if isinstance(entry, dict):
        entry = next((entry[column] for column in COLUMNS if column in entry), None)
    return float(entry) if isinstance(entry, int | float) and not isinstance(entry, bool) else None


def _from_tsv(text: str, path: Path) -> dict[str, float]:
    rows = list(csv.DictReader(text.splitlines(), delimiter="\t"))
    header = list(rows[0]) if rows else []
    name = next((column for column in NAMES if column in header), header[0] if header else "")
    value = next((column for column in COLUMNS if column in header), None)
    if value is None:
        raise BadInput(f"{path} has no column {' or '.join(COLUMNS)}; its columns are: {', '.join(header) or 'none'}")
    try:
        return {row[name]: float(row[value]) for row in rows if row[name] and row[value]}
    except ValueError as error:
        raise BadInput(f"{path}, column {value}: {error}") from error
