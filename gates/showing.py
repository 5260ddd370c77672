"""Evidence as it is laid out on a page: by item (a tilt series), pictures large, slices of a stack together."""

import math
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


def arrange(evidence: Iterable[Evidence], suggestion: Mapping[str, Any], figures: Mapping[str, Any]) -> list[Section]:
    """The sections of a gate's page: what speaks of all items first, then each item in the order of names.

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
    for section in sections.values():
        section.figures = item_figures(figures, section.item) if section.item else overall_figures(figures)
    return [sections[item] for item in sorted(sections)]


def item_figures(figures: Mapping[str, Any], item: str) -> list[tuple[str, str]]:
    """(label with unit, value) of the numbers that speak of one item: those under its name, at any step."""
    found: list[tuple[str, str]] = []
    for step in figures.values():
        for block in step.values() if isinstance(step, Mapping) else ():
            if isinstance(block, Mapping) and isinstance(block.get(item), Mapping):
                found += _scalars(block[item])
    return found[:FIGURES_SHOWN]


def overall_figures(figures: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(label with unit, value) of the numbers that speak of no single item."""
    found: list[tuple[str, str]] = []
    for step in figures.values():
        if isinstance(step, Mapping):
            found += _scalars(step)
    return found[:FIGURES_SHOWN]


def figure_label(key: str) -> str:
    """A figure's name in words, its unit behind a comma: resolution_angstrom -> resolution, Å."""
    head, _, last = key.rpartition("_")
    if head and last in _UNITS:
        return f"{head.replace('_', ' ')}, {_UNITS[last]}"
    return key.replace("_", " ")


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
        if (plain or numbers) and key not in ("verdict", "reason"):
            shown.append((figure_label(key), figure_text(value)))
    return shown
