"""The missing wedge and the tilt step of each tilt series, from the .tlt files of a run's folder."""

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass

from record.errors import AdapterError
from runs.derive.audit import Reader
from runs.derive.numbers import shown
from runs.derive.tilts import WITHOUT_TILTS, count_tilts, missing_wedge, read_tilts, tilt_step

TILTS = "tiltstack/*/*.tlt"
SERIES = "tomostar/*.tomostar"
MAX_BYTES = 256 * 1024


@dataclass(frozen=True)
class WedgeRow:
    """One series: degrees. `tilts` is how many angles its file has.

    `problem` says why it can't be read, or that its .tomostar file has another number of tilts.
    """

    series: str
    tilts: int
    angle1: int | None
    angle2: int | None
    step: str
    problem: str = ""


def wedges(shell: Reader, work_dir: str) -> list[WedgeRow]:
    """By series; one row with 40 and 50 where there is no .tlt file yet. Reads only."""
    found = shell.glob(work_dir, [TILTS, SERIES])
    tomostars = {posixpath.basename(each.path).removesuffix(".tomostar"): each.path for each in found.get(SERIES, [])}
    rows = [_row(shell, work_dir, each.path, tomostars) for each in found.get(TILTS, [])]
    return rows or [WedgeRow("without .tlt files", 0, *WITHOUT_TILTS, "")]


def _row(shell: Reader, work_dir: str, path: str, tomostars: Mapping[str, str]) -> WedgeRow:
    series = posixpath.basename(path).removesuffix(".tlt")
    try:
        tilts = read_tilts(_text(shell, work_dir, path))
        problem = _mismatch(shell, work_dir, len(tilts), tomostars.get(series, ""))
    except (ValueError, AdapterError) as error:
        if isinstance(error, AdapterError) and error.transient:
            raise
        return WedgeRow(series, 0, None, None, "", str(error))
    step = tilt_step(tilts)
    return WedgeRow(series, len(tilts), *missing_wedge(tilts), "" if step is None else shown(step), problem)


def _mismatch(shell: Reader, work_dir: str, tilts: int, tomostar: str) -> str:
    if not tomostar:
        return ""
    name = posixpath.join("tomostar", posixpath.basename(tomostar))
    try:
        there = count_tilts(_text(shell, work_dir, tomostar))
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    return "" if there == tilts else f"{tilts} angles in its .tlt file, and {there} tilts in {name}"


def _text(shell: Reader, work_dir: str, path: str) -> str:
    """A text file; ValueError for what is none."""
    try:
        return shell.read(posixpath.join(work_dir, path), limit=MAX_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8 text; a file in UTF-16 has to be converted") from None
