"""Looks at a run's folder: which tilt series there are, which outputs, and whether they are whole. Reads only."""

import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from jobs.printed import printed
from jobs.shells import FileFact, Shell
from record.errors import AdapterError, BadInput
from runs.pipeline.outputs import SERIES, expand
from runs.pipeline.spec import GateSpec, PhaseSpec
from runs.services.prose import checked

SERIES_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,119}\Z")
MRC_SUFFIXES = frozenset({".mrc", ".mrcs", ".st", ".ali", ".rec", ".map"})
MRC_HEADER_BYTES = 1024
MRC_BITS = {0: 8, 1: 16, 2: 32, 3: 32, 4: 64, 6: 16, 12: 16, 101: 4}
PATHS_KEPT = 20  # of each pattern, in the database
SHOWN = 8


@dataclass(frozen=True)
class Look:
    """What to look for: a phase's outputs, for the tilt series that are taken along; `excluded` are the others."""

    work_dir: str
    phase: PhaseSpec
    values: Mapping[str, str]
    series: Sequence[str]
    gates: Sequence[GateSpec] = ()
    excluded: Sequence[str] = ()


@dataclass
class Finding:
    """What was found. `problems` are in words; none means that the phase's outputs are there and whole.

    `unchecked` are outputs that nothing was looked for: in prose, or with a value that isn't set. `newest` is when the
    latest of the outputs was written.
    """

    problems: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    done: int = 0
    total: int = 0
    outputs: dict[str, list[str]] = field(default_factory=dict)
    files: dict[str, dict[str, dict[str, str]]] = field(default_factory=dict)
    newest: datetime | None = None


def find_series(shell: Shell, work_dir: str, pattern: str) -> list[str]:
    """Names of the tilt series on disk, sorted: what stands in place of the `*`. BadInput for a name with odd signs."""
    before, after = PurePosixPath(pattern).name.split("*")
    names = []
    for fact in shell.glob(work_dir, [pattern])[pattern]:
        file_name = PurePosixPath(fact.path).name
        name = file_name[len(before) : len(file_name) - len(after)]
        if not SERIES_NAME.match(name):
            raise BadInput(f"The tilt series {name!r} can't be used: name it with A-Z a-z 0-9 _ . + - only.")
        names.append(name)
    return sorted(set(names))


def verify_outputs(shell: Shell, look: Look) -> Finding:
    """Look for every output of the phase, and for the files that the gates after it will show.

    Missing, empty and cut-off files are problems. Counts tilt series, or outputs where there is none for each series.
    """
    finding = Finding()
    wanted = _wanted(look)
    found = _found(shell, look, wanted)
    bad: set[str] = set()
    finding.unchecked = [
        *look.phase.unchecked,
        *(each for each in look.phase.outputs if not _can_be_filled(each, look)),
    ]
    for series, pattern in wanted:
        faults = _faults(shell, look.work_dir, pattern, found[pattern])
        if faults:
            bad.add(series or pattern)
            finding.problems += faults
        paths = [_shown(look.work_dir, fact.path) for fact in found[pattern][:PATHS_KEPT]]
        finding.outputs.setdefault(series, []).extend(paths)
    checks = checked(shell, look.work_dir, look.phase.checks, look.values, look.series)
    for series, of, faults in checks:
        if faults:
            bad.add(series or of)
            finding.problems += faults
    units = set(look.series) if look.phase.per_series else {pattern for _, pattern in wanted}
    units |= {check.of for check in look.phase.checks if SERIES not in check.file} - set(look.series)
    finding.total = len(units)
    finding.done = len(units - bad)
    if look.phase.per_series and not look.series:
        finding.problems.append("there is no tilt series to work on: all are excluded, or none was found")
    finding.files = _gate_files(shell, look)
    finding.newest = max((fact.modified_at for facts in found.values() for fact in facts), default=None)
    return finding


def count_done(shell: Shell, look: Look) -> tuple[int, int]:
    """(done, total) without looking into files: tilt series whose outputs are there and not empty, or outputs."""
    wanted = _wanted(look, progress=True)
    found = _found(shell, look, wanted)
    units: dict[str, bool] = {}
    for series, pattern in wanted:
        there = any(fact.size_bytes for fact in found[pattern])
        units[series or pattern] = units.get(series or pattern, True) and there
    if look.phase.per_series:
        units = {series: there for series, there in units.items() if series in look.series}
    return sum(units.values()), len(units)


def find_outputs(shell: Shell, look: Look) -> list[str]:
    """Every output of the phase that is there, relative to the work folder, each once."""
    found = shell.glob(look.work_dir, [pattern for _, pattern in _wanted(look)])
    return sorted({_relative(look.work_dir, fact.path) for facts in found.values() for fact in facts})


def find_files(shell: Shell, look: Look, patterns: Sequence[str]) -> list[str]:
    """Every file that one of the patterns fits, relative to the work folder, each once."""
    filled = [pattern for each in patterns if (pattern := expand(each, look.values)) is not None]
    found = shell.glob(look.work_dir, filled)
    return sorted({_relative(look.work_dir, fact.path) for facts in found.values() for fact in facts})


def describe_problems(problems: Sequence[str]) -> str:
    """The problems in one sentence; many are counted."""
    more = f"; and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
    return "; ".join(problems[:SHOWN]) + more


def _wanted(look: Look, *, progress: bool = False) -> list[tuple[str, str]]:
    """(series or empty, pattern) of everything to be looked for; patterns that can't be filled in are left out."""
    patterns: Iterable[str] = look.phase.outputs
    if progress and look.phase.items:
        patterns = [look.phase.items]
    wanted = []
    for pattern in patterns:
        names = look.series if SERIES in pattern else [""]
        wanted += [(name, expand(pattern, look.values, series=name)) for name in names]
    return [(name, pattern) for name, pattern in wanted if pattern is not None]


def _can_be_filled(pattern: str, look: Look) -> bool:
    return expand(pattern, look.values, series=SERIES) is not None


def _found(shell: Shell, look: Look, wanted: Sequence[tuple[str, str]]) -> dict[str, list[FileFact]]:
    """pattern -> what fits it, without what is another series': `Position_1_*` fits files of `Position_1_2` too."""
    found = shell.glob(look.work_dir, [pattern for _, pattern in wanted])
    names = [*look.series, *look.excluded]
    for series, pattern in wanted:
        longer = [name for name in names if series and name != series and name.startswith(series)]
        if longer:
            others = [f"{look.work_dir}/{pattern.replace(series, name)}" for name in longer]
            found[pattern] = [fact for fact in found[pattern] if not any(_fits(fact.path, each) for each in others)]
    return found


def _fits(path: str, pattern: str) -> bool:
    """Whether a pattern fits a path; its wildcards don't reach over a slash."""
    parts, wanted = path.split("/"), pattern.split("/")
    return len(parts) == len(wanted) and all(fnmatchcase(*pair) for pair in zip(parts, wanted, strict=True))


def _faults(shell: Shell, work_dir: str, pattern: str, facts: list[FileFact]) -> list[str]:
    if not facts:
        return [f"{pattern} is missing"]
    faults = [f"{_shown(work_dir, fact.path)} is empty" for fact in facts if fact.size_bytes == 0]
    for fact in facts:
        if not _can_be_kept(work_dir, fact.path):
            faults.append(f"{_shown(work_dir, fact.path)} has unseen or broken characters in its name: rename it")
        elif fact.size_bytes and PurePosixPath(fact.path).suffix.lower() in MRC_SUFFIXES:
            faults += [f"{_shown(work_dir, fact.path)} {text}" for text in mrc_faults(shell, fact)]
    return faults


def mrc_faults(shell: Shell, fact: FileFact) -> list[str]:
    """What is wrong with an MRC file by its header and size (MRC2014: words 1 to 4 and 24, little or big endian)."""
    try:
        header = shell.read(fact.path, limit=MRC_HEADER_BYTES)
    except AdapterError as error:
        return [f"can't be read ({error.message})"]
    if len(header) < MRC_HEADER_BYTES:
        return [f"is cut off: {len(header)} bytes, and an MRC header alone has {MRC_HEADER_BYTES}"]
    needed = _mrc_size_bytes(header)
    if needed is None:
        return ["is not an MRC file: its header makes no sense"]
    if fact.size_bytes < needed:
        return [f"is cut off: {fact.size_bytes} bytes, and by its header it has {needed}"]
    return []


def mrc_sides(header: bytes) -> tuple[int, int, int]:
    """x, y and z of a volume in pixels, by a header in which mrc_faults finds nothing wrong."""
    order = _mrc_order(header)
    nx, ny, nz = struct.unpack_from(f"{order or '<'}3i", header, 0)
    return nx, ny, nz


def _mrc_order(header: bytes) -> str | None:
    """The byte order in which the header makes sense; None where it does in neither."""
    for order in "<>":
        nx, ny, nz, mode = struct.unpack_from(f"{order}4i", header, 0)
        (extended,) = struct.unpack_from(f"{order}i", header, 92)
        if mode in MRC_BITS and min(nx, ny, nz) > 0 and extended >= 0 and max(nx, ny, nz) < 1 << 24:
            return order
    return None


def _mrc_size_bytes(header: bytes) -> int | None:
    order = _mrc_order(header)
    if order is None:
        return None
    nx, ny, nz, mode = struct.unpack_from(f"{order}4i", header, 0)
    (extended,) = struct.unpack_from(f"{order}i", header, 92)
    row_bytes = (nx * MRC_BITS[mode] + 7) // 8
    return MRC_HEADER_BYTES + int(extended) + int(row_bytes) * int(ny) * int(nz)


def _gate_files(shell: Shell, look: Look) -> dict[str, dict[str, dict[str, str]]]:
    """gate key -> name -> series (or empty) -> path; what isn't there is left out."""
    asked: list[tuple[str, str, str, str]] = []
    for gate in look.gates:
        for name, pattern in gate.files.items():
            for series in look.series if SERIES in pattern else [""]:
                filled = expand(pattern, look.values, series=series)
                if filled is not None:
                    asked.append((gate.key, name, series, filled))
    found = shell.glob(look.work_dir, [each[3] for each in asked])
    files: dict[str, dict[str, dict[str, str]]] = {gate.key: {} for gate in look.gates}
    for key, name, series, pattern in asked:
        fit = [fact.path for fact in found[pattern] if _can_be_kept(look.work_dir, fact.path)]
        if fit:
            files[key].setdefault(name, {})[series] = _relative(look.work_dir, fit[0])
    return files


def _relative(work_dir: str, path: str) -> str:
    return path.removeprefix(work_dir.rstrip("/") + "/")


def _shown(work_dir: str, path: str) -> str:
    """The path as it can be kept and shown: a file's name may be any bytes."""
    return printed(_relative(work_dir, path).encode(errors="surrogateescape"))


def _can_be_kept(work_dir: str, path: str) -> bool:
    return _shown(work_dir, path) == _relative(work_dir, path) and "\n" not in path
