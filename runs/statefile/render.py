"""Writes a run's state into `.opus_run_state.json`, over what stood there: keys that only others know are kept."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runs.statefile.read import TOMOSTAR, VERSION, Work, series_name, species_label

OURS = "conductor"  # the added key: what only Conductor knows
# From furthest behind to furthest on: of lanes that differ, the file's status is that of the one furthest behind.
ORDER = ("failed", "pending", "ready", "running", "verifying", "checkpoint", "skipped", "done")


@dataclass(frozen=True)
class Passed:
    """A gate that was passed in a lane (`species` empty: for all tilt series), and what was decided there."""

    gate: str
    species: str
    entry: dict[str, Any]


@dataclass(frozen=True)
class Now:
    """A run as it is. `lanes` is phase's key -> species' label (empty: all tilt series) -> how far it is."""

    uuid: str
    work_dir: str
    pipeline_conf: str
    species: Sequence[str]
    lanes: Mapping[str, Mapping[str, Work]]
    passed: Sequence[Passed]
    excluded: Sequence[str]
    replay: bool
    gates: frozenset[str] = frozenset()  # names of all gates that the pipeline has
    looked: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # environment, cluster, preflight


def render_state(before: Mapping[str, Any], now: Now) -> str:
    """The file's text: two-space JSON, `before` with what Conductor knows over it."""
    state = dict(before)
    state["schema_version"] = VERSION
    state["project"] = _project(before.get("project") or {}, now)
    for key, found in now.looked.items():
        state[key] = _merged(before.get(key) or {}, found)
    state["phases"] = _phases(before.get("phases") or {}, now)
    state["checkpoints"] = _checkpoints(before.get("checkpoints") or [], now)
    state.setdefault("artifacts", {})
    state["excluded_tomostar"] = _excluded(before.get("excluded_tomostar") or [], now.excluded)
    if now.replay or "demo_replay" in before:
        kept = before.get("demo_replay")
        state["demo_replay"] = kept if bool(kept) == now.replay else now.replay
    state[OURS] = {"run": now.uuid, "checkpoints": [_entry(each, {}) for each in _of_some_lanes(now)]}
    return json.dumps(state, indent=2, ensure_ascii=False) + "\n"


def _merged(before: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
    """What was found over what stood there; objects in it are merged alike."""
    deep = {
        key: _merged(before[key], value)
        if isinstance(value, Mapping) and isinstance(before.get(key), Mapping)
        else value
        for key, value in found.items()
    }
    return {**before, **deep}


def _project(before: Mapping[str, Any], now: Now) -> dict[str, Any]:
    listed = [each for each in before.get("species") or [] if species_label(each) in now.species]
    there = {species_label(each) for each in listed}
    alike = all(isinstance(each, str) for each in listed)
    new = [label if alike else {"label": label} for label in now.species if label not in there]
    conf = before.get("pipeline_conf") or now.pipeline_conf
    return {**before, "work_dir": now.work_dir, "pipeline_conf": conf, "species": [*listed, *new]}


def _phases(before: Mapping[str, Any], now: Now) -> dict[str, Any]:
    phases = dict(before)
    for key, lanes in now.lanes.items():
        kept = dict(before.get(key) or {})
        ids = [str(each) for each in kept.get("job_ids") or []]
        ids += [each for work in lanes.values() for each in work.job_ids]
        entry = {**kept, "status": furthest_behind([work.status for work in lanes.values()])}
        entry["job_ids"] = list(dict.fromkeys(ids))
        if list(lanes) != [""]:
            entry["lanes"] = {label: _lane(work) for label, work in lanes.items()}
        reasons = [work.reason for work in lanes.values() if work.reason]
        entry.pop("reason", None)
        phases[key] = entry | ({"reason": reasons[0]} if reasons else {})
    return phases


def furthest_behind(statuses: Sequence[str]) -> str:
    """The status of the lane that is furthest behind; a failed one is behind all others."""
    return min(statuses, key=ORDER.index)


def _lane(work: Work) -> dict[str, Any]:
    return {"status": work.status, "job_ids": list(work.job_ids)} | ({"reason": work.reason} if work.reason else {})


def _checkpoints(before: Sequence[Any], now: Now) -> list[dict[str, Any]]:
    """The gates that are passed in all their lanes, each lane with its entry; and gates that are none of ours."""
    entries = [each for each in before if isinstance(each, dict)]
    kept = [dict(each) for each in entries if each.get("gate") not in now.gates]
    return [*kept, *(_entry(each, _earlier(entries, each)) for each in _of_whole_gates(now))]


def _earlier(entries: Sequence[dict[str, Any]], passed: Passed) -> dict[str, Any]:
    fits = (each for each in entries if each.get("gate") == passed.gate)
    return next((each for each in fits if (each.get("species") or "") in ("", passed.species)), {})


def _entry(passed: Passed, before: Mapping[str, Any]) -> dict[str, Any]:
    species = {"species": passed.species} if passed.species else {}
    return {**before, "gate": passed.gate, **species, **passed.entry}


def _of_whole_gates(now: Now) -> list[Passed]:
    """Others take a gate for approved as soon as one entry names it, so a lane alone is not told there."""
    counts: dict[str, int] = {}
    for each in now.passed:
        counts[each.gate] = counts.get(each.gate, 0) + 1
    return [each for each in now.passed if not each.species or counts[each.gate] == len(now.species)]


def _of_some_lanes(now: Now) -> list[Passed]:
    whole = _of_whole_gates(now)
    return [each for each in now.passed if each not in whole]


def _excluded(before: Sequence[str], names: Sequence[str]) -> list[str]:
    """The excluded series as the file writes them: those that stood there as they stood, new ones alike."""
    written = {series_name(each): each for each in before}
    ending = TOMOSTAR if any(each.endswith(TOMOSTAR) for each in before) else ""
    return [written.get(name, f"{name}{ending}") for name in names]
