"""The pixel-size audit: one table of what each kind of file states, beside what the conf says it should be."""

import posixpath
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from record.errors import AdapterError
from runs.derive.graph import with_derived
from runs.derive.numbers import exact
from runs.derive.pixels import (
    HEADER_BYTES,
    MDOC_BYTES,
    STAR_BYTES,
    XML_BYTES,
    Unstated,
    mdoc_sizes,
    mrc_sizes,
    star_sizes,
    warp_xml_sizes,
)

DISAGREEMENT = 0.005  # fraction
PLACEHOLDER_ANGSTROM = 1.0  # written by programs that don't know the pixel size
FILES_LOOKED_AT = 20  # of each kind


@dataclass(frozen=True)
class Source:
    """A kind of file that states a pixel size. `patterns` are filled with values of the conf; `expected` is one."""

    label: str
    patterns: tuple[str, ...]
    expected: str
    read: Callable[[bytes], list[float]]
    first_bytes: int
    is_header: bool = False


SOURCES = (
    Source("mdoc", ("{MDOC_DIR}/*.mdoc", "mdoc/*.mdoc", "mdocs/*.mdoc"), "ANGPIX", mdoc_sizes, MDOC_BYTES),
    Source("WARP, frame series", ("warp_frameseries/*.xml",), "ANGPIX", warp_xml_sizes, XML_BYTES, True),
    Source("WARP, tilt series", ("warp_tiltseries/*.xml",), "ANGPIX", warp_xml_sizes, XML_BYTES, True),
    Source("Aligned volume of AreTomo", ("tiltstack/*/*_ali.mrc",), "ALIGN_ANGPIX", mrc_sizes, HEADER_BYTES, True),
    Source("Tomogram", ("warp_tiltseries/reconstruction/*.mrc",), "ALIGN_ANGPIX", mrc_sizes, HEADER_BYTES, True),
    Source(
        "STAR, tilt images",
        ("warp_tiltseries/{TM_LABEL}_matching.star",),
        "ANGPIX",
        star_sizes("rlnTomoTiltSeriesPixelSize"),
        STAR_BYTES,
    ),
    Source(
        "STAR, subtomograms",
        ("warp_tiltseries/{TM_LABEL}_matching.star",),
        "OUTPUT_ANGPIX",
        star_sizes("rlnImagePixelSize"),
        STAR_BYTES,
    ),
    Source("Template", ("templates/{TM_LABEL}_tm.mrc",), "ALIGN_ANGPIX", mrc_sizes, HEADER_BYTES, True),
    Source("Mask", ("templates/{TM_LABEL}_mask.mrc",), "ALIGN_ANGPIX", mrc_sizes, HEADER_BYTES, True),
)


@dataclass(frozen=True)
class AuditRow:
    """What one file states. `verdict`: agrees, disagrees, unset, unreadable, or unchecked without an expected value."""

    source: str
    file: str
    stated: str
    expected_name: str
    expected: str
    verdict: str
    note: str = ""


class Reader(Protocol):
    """What the audit needs of a target's shell."""

    def glob(self, root: str, patterns: list[str]) -> Mapping[str, Sequence["Named"]]: ...

    def read(self, path: str, *, offset: int = 0, limit: int | None = None) -> bytes: ...


class Named(Protocol):
    """A file that was found."""

    @property
    def path(self) -> str: ...


def audit(shell: Reader, work_dir: str, values: Mapping[str, str]) -> list[AuditRow]:
    """The pixel sizes that the files below `work_dir` state, first those of the conf. Reads only.

    Of each kind at most FILES_LOOKED_AT files; of each the beginning. AdapterError where the target can't be reached.
    """
    known = with_derived(values)
    rows = [_of_conf(name, known[name]) for name in ("ANGPIX", "ALIGN_ANGPIX", "OUTPUT_ANGPIX") if known.get(name)]
    for source in SOURCES:
        patterns = [pattern for raw in source.patterns if (pattern := _filled(raw, work_dir, known))]
        found = shell.glob(work_dir, patterns) if patterns else {}
        paths = sorted({each.path for pattern in patterns for each in found.get(pattern, [])})
        rows += [_of_file(shell, work_dir, source, path, known) for path in paths[:FILES_LOOKED_AT]]
    return rows


def disagreements(rows: Iterable[AuditRow]) -> list[AuditRow]:
    """Those that somebody should look at."""
    return [row for row in rows if row.verdict in ("disagrees", "unreadable")]


def judge(stated: float, expected: float | None, *, is_header: bool) -> str:
    """agrees, disagrees (by more than 0.5 %), unset (0, or 1.0 in a header), or unchecked."""
    if stated == 0 or (is_header and stated == PLACEHOLDER_ANGSTROM):
        return "unset"
    if expected is None:
        return "unchecked"
    return "agrees" if abs(stated - expected) <= DISAGREEMENT * expected else "disagrees"


def _of_conf(name: str, text: str) -> AuditRow:
    number = exact(text)
    verdict = "unset" if number == 0 else "unchecked" if number is not None and number > 0 else "unreadable"
    return AuditRow(
        "conf", name, text, name, text, verdict, "" if verdict == "unchecked" else f"{text} is no pixel size"
    )


def _filled(pattern: str, work_dir: str, known: Mapping[str, str]) -> str:
    """The pattern below the work folder; empty where a value that it needs has none, or leads out of it."""
    try:
        path = pattern.format_map({name: value for name, value in known.items() if value})
    except KeyError:
        return ""
    if path.startswith("/"):
        path = posixpath.relpath(posixpath.normpath(path), work_dir)
    return "" if ".." in path.split("/") else path


def _of_file(shell: Reader, work_dir: str, source: Source, path: str, known: Mapping[str, str]) -> AuditRow:
    expected = known.get(source.expected, "")
    number = exact(expected)
    target = float(number) if number is not None and number > 0 else None
    try:
        data = shell.read(posixpath.join(work_dir, path), limit=source.first_bytes)
        sizes = source.read(data)
    except Unstated as problem:
        return AuditRow(source.label, path, "", source.expected, expected, "unreadable", str(problem))
    except AdapterError as error:
        if error.transient:
            raise
        return AuditRow(source.label, path, "", source.expected, expected, "unreadable", error.message)
    if not sizes:
        return AuditRow(source.label, path, "", source.expected, expected, "unset", "it states none")
    verdicts = [judge(size, target, is_header=source.is_header) for size in sizes]
    worst = next(each for each in ("disagrees", "unset", "unchecked", "agrees") if each in verdicts)
    stated = "unset" if set(verdicts) == {"unset"} else ", ".join(f"{size:.4g}" for size in sizes)
    note = _by_binning(sizes[0], target, known) if worst == "disagrees" else ""
    return AuditRow(source.label, path, stated, source.expected, expected, worst, note)


def _by_binning(stated: float, expected: float | None, known: Mapping[str, str]) -> str:
    """What a disagreement may come from: most often it is the binning."""
    binning = exact(known.get("BINNING_FACTOR", ""))
    if expected is None or binning is None or binning <= 1:
        return ""
    for factor, words in ((float(binning), "binned once more"), (1 / float(binning), "not binned")):
        if judge(stated, expected * factor, is_header=False) == "agrees":
            return f"it would be right if it were {words} (BINNING_FACTOR {known['BINNING_FACTOR']})"
    return ""
