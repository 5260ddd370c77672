"""The list that a renderer writes beside its pictures (`index.json`), read with suspicion."""

import json
import math
import re
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath
from typing import Any

from gates.answers import texts_in, unprintable
from gates.models import EvidenceKind
from record.errors import BadInput
from record.shape import problems

MAX_INDEX_BYTES = 4 * 1024 * 1024
_WORD = re.compile(r"[^A-Za-z0-9]+")

_TEXT = {"type": ["string", "null"]}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["evidence"],
    "properties": {
        "renderer": {"type": "string"},
        "evidence": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name", "file", "kind"],
                "properties": {
                    "name": {"type": "string", "minLength": 1, "maxLength": 150},
                    "file": {"type": "string", "minLength": 1, "maxLength": 255},
                    "kind": {"enum": list(EvidenceKind.values)},
                    "title": _TEXT,
                    "caption": _TEXT,
                    "group": _TEXT,
                    "item": _TEXT,
                    "index": {"type": ["integer", "null"], "minimum": -(2**31), "maximum": 2**31 - 1},
                },
            },
        },
        "figures": {"type": "object"},
        "warnings": {"type": "array", "items": {"type": "string"}},
    },
}


@dataclass(frozen=True)
class Listed:
    """One line of an index: a file in the renderer's folder and what is said of it."""

    name: str
    file: str
    kind: str
    title: str
    caption: str
    group: str
    index: int
    item: str


@dataclass(frozen=True)
class Index:
    """A renderer's list. Figures that are not a number have become null, and `warnings` say so."""

    evidence: list[Listed]
    figures: dict[str, Any]
    warnings: list[str]


def read_index(data: bytes, *, folder: str) -> Index:
    """Parse and check an `index.json`; BadInput for one that can't be used. Names get `folder/` before them."""
    odd: list[str] = []
    try:
        raw = json.loads(data.decode("utf-8"), parse_constant=odd.append, parse_float=partial(_number, odd))
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{folder}/index.json is no JSON text: {error}.") from error
    if errors := problems(raw, SCHEMA):
        where = "/".join(map(str, errors[0].path)) or "the whole"
        raise BadInput(f"{folder}/index.json is not as a renderer writes it, at {where}: {errors[0].message[:300]}.")
    if any(map(unprintable, texts_in(raw))):
        raise BadInput(f"{folder}/index.json holds control characters.")
    warnings = list(raw.get("warnings", []))
    if odd:
        warnings.append(f"{folder}: {len(odd)} figures are not a number (NaN or infinite); they are left empty")
    return Index([_listed(each, folder) for each in raw["evidence"]], raw.get("figures", {}), warnings)


def folder_name(number: int, command: list[str]) -> str:
    """The folder of a command's evidence, by its place and its subcommand: `01_slices`."""
    words = command[command.index("-m") + 2 :] if "-m" in command else [PurePosixPath(command[0]).name]
    word = next((word for word in words if not word.startswith("-")), "evidence")
    return f"{number:02d}_{_WORD.sub('_', word).strip('_')[:40] or 'evidence'}"


def _number(odd: list[str], text: str) -> float | None:
    """A float, or None, noted in `odd`, for one that is beyond all floats (1e999)."""
    number = float(text)
    if math.isfinite(number):
        return number
    odd.append(text)
    return None


def _listed(raw: dict[str, Any], folder: str) -> Listed:
    group = str(raw.get("group") or "")
    return Listed(
        name=f"{folder}/{raw['name']}",
        file=raw["file"],
        kind=raw["kind"],
        title=str(raw.get("title") or "")[:200],
        caption=str(raw.get("caption") or "")[:500],
        group=f"{folder}/{group}"[:120] if group else "",
        index=raw.get("index") or 0,
        item=str(raw.get("item") or "")[:120],
    )
