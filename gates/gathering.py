"""Evidence brought home from the target: outside any transaction, into the store."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from gates import store
from gates.index import MAX_INDEX_BYTES, Index, Listed, read_index
from jobs.logs import tail
from jobs.models import Job
from jobs.shells import Shell
from record.errors import BadInput, ConductorError

OUT_VARIABLE = "CONDUCTOR_EVIDENCE_OUT"
INDEXES = ["*/index.json", "*/*/index.json"]


@dataclass
class Gathered:
    """What a job has made: `pieces` as fields of Evidence rows, or `error`, in words."""

    pieces: list[dict[str, Any]] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    error: str = ""


def gather_evidence(shell: Shell, out_dir: str) -> Gathered:
    """Read every renderer's index below `out_dir`, one or two folders deep, and copy its files into the store.

    A piece that can't be kept is left out, with a note; an index that can't be read, or nothing at all, is BadInput.
    """
    gathered = Gathered()
    room = store.MAX_GATE_BYTES
    found = shell.glob(out_dir, INDEXES)
    for fact in sorted((fact for facts in found.values() for fact in facts), key=lambda fact: fact.path):
        folder = PurePosixPath(fact.path).parent
        name = str(folder.relative_to(out_dir))
        index = _read_index(shell, fact.path, fact.size_bytes, name)
        gathered.notes += index.warnings
        gathered.figures[name] = index.figures
        room = _copy_all(shell, str(folder), index, gathered, room)
    if not gathered.pieces:
        raise BadInput("; ".join([f"no evidence was made in {out_dir}", *gathered.notes])[:2000])
    return gathered


def _read_index(shell: Shell, path: str, size_bytes: int, folder: str) -> Index:
    if size_bytes > MAX_INDEX_BYTES:
        raise BadInput(f"{folder}/index.json has {size_bytes} bytes; {MAX_INDEX_BYTES} is the most.")
    return read_index(shell.read(path, limit=MAX_INDEX_BYTES), folder=folder)


def _copy_all(shell: Shell, folder: str, index: Index, gathered: Gathered, room: int) -> int:
    twice = {name for name, count in Counter(each.name for each in index.evidence).items() if count > 1}
    for listed in index.evidence:
        try:
            if listed.name in twice:
                raise BadInput("two pieces have this name")
            if len(gathered.pieces) >= store.MAX_PIECES:
                raise BadInput(f"a gate shows {store.MAX_PIECES} pieces at most")
            piece = _copy(shell, folder, listed, room)
        except ConductorError as error:
            if getattr(error, "transient", False):
                raise
            gathered.notes.append(f"{listed.name} is left out: {error.message}")
            continue
        room -= piece["size_bytes"]
        gathered.pieces.append(piece)
    return room


def _copy(shell: Shell, folder: str, listed: Listed, room: int) -> dict[str, Any]:
    if listed.file != PurePosixPath(listed.file).name or listed.file in {".", ".."}:
        raise BadInput(f"{listed.file} is not a file of the renderer's own folder")
    path = f"{folder}/{listed.file}"
    size = shell.size(path)
    if size > min(store.MAX_PIECE_BYTES, room):
        raise BadInput(f"{listed.file} has {size} bytes, more than is left for it")
    stored = store.put(shell.read(path, limit=store.MAX_PIECE_BYTES + 1), name=listed.file, kind=listed.kind)
    return {
        "name": listed.name,
        "kind": listed.kind,
        "title": listed.title,
        "caption": listed.caption,
        "group": listed.group,
        "index": listed.index,
        "item": listed.item,
        "media_type": stored.media_type,
        "sha256": stored.sha256,
        "size_bytes": stored.size_bytes,
    }


def failure_text(shell: Shell, job: Job) -> str:
    """Why the job failed, and the end of what it said."""
    what = f"The job that makes the evidence ended as {str(job.get_state_display()).lower()}"
    said = []
    for path in (job.stderr_path, job.stdout_path):
        try:
            text = tail(shell, path, lines=20).text.strip() if path else ""
        except ConductorError as error:
            text = error.message
        if text:
            said.append(text)
            break
    return "\n".join([f"{what}: {job.reason}".rstrip(": ") + ".", *said])[-2000:]
