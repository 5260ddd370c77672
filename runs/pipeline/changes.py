"""What differs between two versions of a pipeline: files, and the phases that are made of them. Reads only."""

import difflib
from dataclasses import dataclass
from pathlib import Path

from runs.pipeline.spec import PhaseSpec, PipelineSpec

MOST_LINES = 200
MOST_BYTES = 512 * 1024  # of a file whose difference is shown


@dataclass(frozen=True)
class FileChange:
    """One file that is not the same. `how`: added, removed or changed; `lines` of a unified diff, with their signs."""

    name: str
    how: str
    lines: tuple[str, ...] = ()
    more: int = 0


def changed_files(old: Path, new: Path) -> list[FileChange]:
    """The files that differ between two folders, by name. Modes count: a script may have lost its right to run."""
    names = {path.relative_to(root).as_posix() for root in (old, new) for path in root.rglob("*") if path.is_file()}
    return [change for name in sorted(names) if (change := _change(name, old / name, new / name))]


def same_shape(old: PipelineSpec, new: PipelineSpec) -> str:
    """Why a run of `old` can't go on with `new`, in words; empty where each phase of one is a phase of the other."""
    were, are = ({phase.key: phase.per_species for phase in spec.phases} for spec in (old, new))
    gone, come = [key for key in were if key not in are], [key for key in are if key not in were]
    moved = [key for key in were if key in are and were[key] != are[key]]
    said = [
        f"{what} {', '.join(keys)}"
        for what, keys in (("it has no phase", gone), ("it has the new phase", come), ("another lane has phase", moved))
        if keys
    ]
    return "; ".join(said)


def with_other_scripts(old: PipelineSpec, new: PipelineSpec, changes: list[FileChange]) -> list[str]:
    """Keys of the phases whose own scripts are other ones now, or have changed."""
    changed = {change.name for change in changes}

    def differs(phase: PhaseSpec) -> bool:
        scripts = old.by_key[phase.key].scripts if phase.key in old.by_key else ()
        return scripts != phase.scripts or any(f"scripts/{name}" in changed for name in phase.scripts)

    return [phase.key for phase in new.phases if differs(phase)]


def _change(name: str, old: Path, new: Path) -> FileChange | None:
    if not old.exists() or not new.exists():
        return FileChange(name, "removed" if old.exists() else "added")
    before, after = old.read_bytes(), new.read_bytes()
    if before == after:
        return FileChange(name, "changed", ("its right to be run",)) if _mode(old) != _mode(new) else None
    if max(len(before), len(after)) > MOST_BYTES or b"\0" in before + after:
        return FileChange(name, "changed")
    were, are = (data.decode(errors="replace").splitlines() for data in (before, after))
    lines = [line[:300] for line in difflib.unified_diff(were, are, lineterm="", n=2)][2:]  # without the two names
    return FileChange(name, "changed", tuple(lines[:MOST_LINES]), max(0, len(lines) - MOST_LINES))


def _mode(path: Path) -> int:
    return path.stat().st_mode & 0o111
