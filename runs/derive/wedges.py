"""The missing wedge and the tilt step of each tilt series, from the .tlt files of a run's folder."""

import posixpath
from dataclasses import dataclass

from record.errors import AdapterError
from runs.derive.audit import Reader
from runs.derive.numbers import shown
from runs.derive.tilts import WITHOUT_TILTS, missing_wedge, read_tilts, tilt_step

TILTS = "tiltstack/*/*.tlt"
MAX_BYTES = 64 * 1024


@dataclass(frozen=True)
class WedgeRow:
    """One series: degrees. `tilts` is how many angles its file has; `problem` says why it can't be read."""

    series: str
    tilts: int
    angle1: int | None
    angle2: int | None
    step: str
    problem: str = ""


def wedges(shell: Reader, work_dir: str) -> list[WedgeRow]:
    """By series; one row with 40 and 50 where there is no .tlt file yet. Reads only."""
    found = shell.glob(work_dir, [TILTS])
    rows = [_row(shell, work_dir, each.path) for each in found.get(TILTS, [])]
    return rows or [WedgeRow("without .tlt files", 0, *WITHOUT_TILTS, "")]


def _row(shell: Reader, work_dir: str, path: str) -> WedgeRow:
    series = posixpath.basename(path).removesuffix(".tlt")
    try:
        tilts = read_tilts(shell.read(posixpath.join(work_dir, path), limit=MAX_BYTES).decode())
    except (ValueError, AdapterError) as error:
        if isinstance(error, AdapterError) and error.transient:
            raise
        return WedgeRow(series, 0, None, None, "", str(error))
    step = tilt_step(tilts)
    return WedgeRow(series, len(tilts), *missing_wedge(tilts), "" if step is None else shown(step))
