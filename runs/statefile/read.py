"""Reads `.opus_run_state.json`, the file in which labs' own tools keep how far a run is. No Django, no disk."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

from record.errors import BadInput
from record.shape import in_words, problems

STATE_FILE = ".opus_run_state.json"
VERSION = 1
MAX_BYTES = 16 * 1024 * 1024
SHOWN = 8
TOMOSTAR = ".tomostar"


@dataclass(frozen=True)
class Work:
    """How far one phase (or one lane of it) is: its status, and the scheduler's ids of its jobs."""

    status: str
    job_ids: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True)
class Approval:
    """A gate that was approved. `species` is empty for all lanes; `entry` is what stands there of it."""

    gate: str
    species: str
    entry: dict[str, Any]


@dataclass(frozen=True)
class LabState:
    """The file's content. `raw` is all of it, with what only others know."""

    raw: dict[str, Any]
    work_dir: str
    pipeline_conf: str = ""
    species: tuple[str, ...] = ()
    phases: dict[str, Work] = field(default_factory=dict)
    lanes: dict[tuple[str, str], Work] = field(default_factory=dict)  # (phase's key, species' label)
    approvals: tuple[Approval, ...] = ()
    excluded: tuple[str, ...] = ()  # names of tilt series, sorted
    replay: bool = False

    def work_of(self, key: str, species: str = "") -> Work:
        """How far a phase is in a lane; what is named for all lanes holds where the lane has no word of its own."""
        return self.lanes.get((key, species)) or self.phases.get(key) or Work("pending")

    def is_approved(self, names: set[str], species: str = "") -> bool:
        """Whether a gate that goes by one of these names is approved for a lane: exactly where an entry is there."""
        return any(each.gate in names and each.species in ("", species) for each in self.approvals)


def read_state(data: bytes, name: str = STATE_FILE) -> LabState:
    """The state in the file's bytes; BadInput, in words, for a torn file, another schema, or what can't be meant."""
    raw = _parse(data, name)
    version = raw.get("schema_version")
    if type(version) is not int or version != VERSION:
        raise BadInput(
            f"{name} has the schema_version {version!r}; this Conductor reads {VERSION}. Nothing was changed."
        )
    if faults := problems(raw, _schema()):
        more = f"; and {len(faults) - SHOWN} more" if len(faults) > SHOWN else ""
        shown = "; ".join(in_words(each, most_chars=200) for each in faults[:SHOWN])
        raise BadInput(f"{name} can't be taken up: {shown}{more}. Nothing was changed.")
    return _state(raw)


def series_name(text: str) -> str:
    """The name of a tilt series by the way in which the file writes it: with or without folder and ending."""
    return PurePosixPath(text).name.removesuffix(TOMOSTAR)


def species_label(item: str | dict[str, Any]) -> str:
    """The label of an entry of project.species, which is a text, or an object with more about it."""
    return item if isinstance(item, str) else str(item["label"])


def _parse(data: bytes, name: str) -> dict[str, Any]:
    if len(data) > MAX_BYTES:
        raise BadInput(f"{name} is larger than {MAX_BYTES // 2**20} MiB: it is no state of a run. Nothing was changed.")
    try:
        raw = json.loads(data.decode("utf-8-sig"), object_pairs_hook=_without_doubles, parse_constant=_refuse_constant)
    except UnicodeDecodeError:
        raise BadInput(f"{name} is not UTF-8 text. Nothing was changed.") from None
    except json.JSONDecodeError as error:
        what = f"line {error.lineno}, column {error.colno}: {error.msg}"
        raise BadInput(f"{name} is torn or no JSON ({what}). Nothing was changed.") from None
    except RecursionError:
        raise BadInput(f"{name} is nested too deeply. Nothing was changed.") from None
    except ValueError as error:
        raise BadInput(f"{name} can't be taken up: {error}. Nothing was changed.") from None
    if not isinstance(raw, dict):
        raise BadInput(f"{name} holds no object. Nothing was changed.")
    return raw


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {next(key for key in keys if keys.count(key) > 1)!r} stands twice in one object")
    return result


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


@lru_cache(maxsize=1)
def _schema() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((Path(__file__).parent / "schema.json").read_text())
    return found


def _state(raw: dict[str, Any]) -> LabState:
    project = raw["project"]
    phases = raw["phases"]
    approvals = tuple(_approvals(raw))
    named = [*(raw.get("excluded_tomostar") or []), *_excluded_at_gates(approvals)]
    return LabState(
        raw=raw,
        work_dir=project["work_dir"],
        pipeline_conf=project.get("pipeline_conf") or "",
        species=tuple(dict.fromkeys(species_label(each) for each in project.get("species") or [])),
        phases={key: _work(each) for key, each in phases.items()},
        lanes={
            (key, label): _work(lane) for key, each in phases.items() for label, lane in each.get("lanes", {}).items()
        },
        approvals=approvals,
        excluded=tuple(sorted({series_name(each) for each in named})),
        replay=bool(raw.get("demo_replay")),
    )


def _work(entry: dict[str, Any]) -> Work:
    ids = tuple(str(each) for each in entry.get("job_ids") or [])
    return Work(entry["status"], ids, entry.get("reason") or "")


def _approvals(raw: dict[str, Any]) -> Iterator[Approval]:
    """Those that others wrote, and those of single lanes that we wrote beside them."""
    ours = raw.get("conductor")
    lanes = ours.get("checkpoints") if isinstance(ours, dict) else None
    listed = [*(raw.get("checkpoints") or []), *(lanes if isinstance(lanes, list) else [])]
    for entry in listed:
        if isinstance(entry, dict) and isinstance(entry.get("gate"), str):
            yield Approval(entry["gate"], entry.get("species") or "", entry)


def _excluded_at_gates(approvals: tuple[Approval, ...]) -> list[str]:
    """What was left out of the whole run at the alignment; picks are left out for their species alone."""
    found = [each.entry.get("excluded") or [] for each in approvals if each.gate == "alignment_qc"]
    return [name for names in found for name in names]
