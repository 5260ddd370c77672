"""Evidence as it is laid out on a page: by item (a tilt series), pictures large, slices of a stack together."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gates.models import Evidence, EvidenceKind

FIGURES_SHOWN = 40
_UNITS = {
    "angstrom": "Å",
    "nm": "nm",
    "px": "px",
    "s": "s",
    "mib": "MiB",
    "gib": "GiB",
    "fraction": "fraction",
    "percent": "%",
    "deg": "°",
    "db": "dB",
}


@dataclass(frozen=True)
class Stack:
    """The slices of one stack in order; `start` is the one shown first, `position` where it stands (from 1)."""

    name: str
    slices: list[Evidence]

    @property
    def position(self) -> int:
        return len(self.slices) // 2 + 1

    @property
    def start(self) -> Evidence:
        return self.slices[self.position - 1]


@dataclass
class Section:
    """What is shown of one item; the item "" is all of them together."""

    item: str
    verdict: str = ""
    reason: str = ""
    pictures: list[Evidence] = field(default_factory=list)
    stacks: list[Stack] = field(default_factory=list)
    tables: list[Evidence] = field(default_factory=list)
    files: list[Evidence] = field(default_factory=list)
    figures: list[tuple[str, str]] = field(default_factory=list)


def arrange(
    evidence: Iterable[Evidence], suggestion: Mapping[str, Any], figures: Mapping[str, Any], also: Iterable[str] = ()
) -> list[Section]:
    """The sections of a gate's page: each item in the order of names, then what speaks of all of them together.

    `also` are items that have a section whatever the evidence speaks of.
    `suggestion["items"]` is {item: {"verdict", "reason"}}; `figures` is {step: {...numbers...}}.
    """
    sections: dict[str, Section] = {}
    slices: dict[tuple[str, str], list[Evidence]] = {}
    for piece in evidence:
        section = sections.setdefault(piece.item, Section(piece.item))
        if piece.kind == EvidenceKind.STACK:
            slices.setdefault((piece.item, piece.group or piece.name), []).append(piece)
        else:
            _shelf(section, piece).append(piece)
    for (item, name), pieces in slices.items():
        sections[item].stacks.append(Stack(name, sorted(pieces, key=lambda each: each.index)))
    items = suggestion.get("items")
    for item, advice in items.items() if isinstance(items, Mapping) else ():
        if isinstance(advice, Mapping):
            section = sections.setdefault(item, Section(item))
            section.verdict, section.reason = str(advice.get("verdict", "")), str(advice.get("reason", ""))
    for item in also:
        sections.setdefault(item, Section(item))
    for section in sections.values():
        section.figures = item_figures(figures, section.item) if section.item else overall_figures(figures)
    return [sections[item] for item in sorted(sections, key=lambda item: (not item, item))]


def summary(suggestion: Mapping[str, Any]) -> str:
    """What is suggested of the items, in a few words: 3 good, 1 bad (TS_003). Empty where there are none."""
    items = suggestion.get("items")
    named: dict[str, list[str]] = {}
    for item, advice in items.items() if isinstance(items, Mapping) else ():
        if isinstance(advice, Mapping) and advice.get("verdict"):
            named.setdefault(str(advice["verdict"]), []).append(item)
    parts = []
    for verdict, names in named.items():
        few = f" ({', '.join(names)})" if verdict != "good" and len(names) <= 4 else ""
        parts.append(f"{len(names)} {verdict}{few}")
    return "Suggested: " + ", ".join(parts) + "." if parts else ""


def item_figures(figures: Mapping[str, Any], item: str) -> list[tuple[str, str]]:
    """(label with unit, value) of the numbers that speak of one item: those under its name, or of a step about it."""
    found: list[tuple[str, str]] = []
    for step in _steps(figures):
        if step.get("series") == item:
            found += _scalars(step)
        for block in step.values():
            if isinstance(block, Mapping) and isinstance(block.get(item), Mapping):
                found += _scalars(block[item])
    return _once(found)


def overall_figures(figures: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(label with unit, value) of the numbers that speak of no single item."""
    return _once(
        [each for step in _steps(figures) if not isinstance(step.get("series"), str) for each in _scalars(step)]
    )


def figure_label(key: str) -> str:
    """A figure's name in words, its unit behind a comma: resolution_0_5_angstrom -> resolution 0.5, Å."""
    head, _, last = key.rpartition("_")
    name, unit = (head, f", {_UNITS[last]}") if head and last in _UNITS else (key, "")
    name = re.sub(r"\b(\d+) (\d+)\b", r"\1.\2", name.replace("_", " "))
    return re.sub(r"^n ", "number of ", name) + unit


def figure_text(value: Any) -> str:
    """A figure as people read it: four significant digits, sizes as 960 × 928 × 500, none as a dash."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "—"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1e5 else f"{value:,.0f}"
    if isinstance(value, list | tuple):
        return " × ".join(figure_text(each) for each in value)
    return str(value)


def _steps(figures: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [step for step in figures.values() if isinstance(step, Mapping)]


def _once(shown: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Without repetitions (several steps tell the same pixel size), and no more than a page takes."""
    return list(dict.fromkeys(shown))[:FIGURES_SHOWN]


def _shelf(section: Section, piece: Evidence) -> list[Evidence]:
    if piece.kind in (EvidenceKind.IMAGE, EvidenceKind.CURVE):
        return section.pictures
    return section.tables if piece.kind == EvidenceKind.TABLE else section.files


def _scalars(block: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The plain values of a block; the verdict and its reason are shown apart, and long lists are left to tables."""
    shown = []
    for key, value in block.items():
        few = isinstance(value, list) and 0 < len(value) <= 4
        numbers = few and all(isinstance(each, int | float) for each in value)
        plain = value is None or isinstance(value, str | int | float)
        if (plain or numbers) and key not in ("verdict", "reason", "series"):
            shown.append((figure_label(key), figure_text(value)))
    return shown
