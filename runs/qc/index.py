"""The evidence index: what a renderer wrote, in which order to show it, and the figures that machines read."""

from __future__ import annotations

import json
import math
import os
import re
import secrets
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

Kind = Literal["image", "stack", "table", "curve"]


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """One file to show. Sorting by `name` gives the order; slices of a stack share `group` and count up in `index`."""

    name: str
    file: str
    kind: Kind
    title: str
    caption: str
    group: str | None = None
    index: int | None = None
    item: str | None = None


@dataclass(kw_only=True)
class Index:
    """Collects evidence, figures and warnings of one renderer; `write` puts index.json into the folder."""

    renderer: str
    folder: Path
    evidence: list[Evidence] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def add(
        self,
        *,
        name: str,
        content: bytes,
        suffix: str,
        kind: Kind,
        title: str,
        caption: str,
        group: str | None = None,
        index: int | None = None,
        item: str | None = None,
    ) -> None:
        """Write one picture or table at once and list it. `name` must be new; `suffix` is that of the file (".png")."""
        if any(entry.name == name for entry in self.evidence):
            raise ValueError(f"evidence {name!r} is there already")
        file = self._free_file_name(name, suffix)
        write_atomically(self.folder / file, content)
        self.evidence.append(
            Evidence(name=name, file=file, kind=kind, title=title, caption=caption, group=group, index=index, item=item)
        )

    def warn(self, text: str) -> None:
        """Keep a sentence for the person at the gate; the same one is kept once."""
        if text not in self.warnings:
            self.warnings.append(text)

    def document(self) -> dict[str, Any]:
        """The content of index.json; what isn't a finite number is null."""
        return plain(
            {
                "renderer": self.renderer,
                "evidence": [asdict(entry) for entry in sorted(self.evidence, key=lambda entry: entry.name)],
                "figures": self.figures,
                "warnings": self.warnings,
            }
        )

    def write(self) -> None:
        """Write index.json, last of all: a folder with an index is complete."""
        text = json.dumps(self.document(), allow_nan=False, ensure_ascii=False, indent=1)
        write_atomically(self.folder / "index.json", text.encode())

    def _free_file_name(self, name: str, suffix: str) -> str:
        stem = re.sub(r"[^A-Za-z0-9._-]+", "_", name).strip("._")[:120] or "evidence"
        taken = {entry.file for entry in self.evidence}
        candidates = [stem + suffix] + [f"{stem}-{number}{suffix}" for number in range(2, len(taken) + 3)]
        return next(candidate for candidate in candidates if candidate not in taken)


def plain(value: Any) -> Any:
    """Turn numpy numbers into Python's, tuples into lists, and NaN and infinities into None, all the way down."""
    if isinstance(value, dict):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if hasattr(value, "item") and not isinstance(value, str | bytes):
        value = value.item()
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value


def write_atomically(path: Path, content: bytes) -> None:
    """Write beside `path`, fsync, rename: a reader sees the old file or the new one, never half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f".{path.name[:80]}.{secrets.token_hex(4)}.tmp"
    try:
        with temporary.open("wb") as handle:
            handle.write(content)
            handle.flush()
            os.fsync(handle.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def table_tsv(columns: list[str], rows: list[list[Any]]) -> bytes:
    """A table as tab-separated text with one header line; None is an empty cell, infinity is `inf`."""
    lines = ["\t".join(columns)]
    lines += ["\t".join(_cell(value) for value in row) for row in rows]
    return ("\n".join(lines) + "\n").encode()


def _cell(value: Any) -> str:
    if hasattr(value, "item"):
        value = value.item()
    text = "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)
    return re.sub(r"[\t\r\n]+", " ", text)
