"""Moves files of tilt series that are left out to where scripts don't find them, and back. Nothing is ever deleted."""

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from jobs.shells import SYSTEM_PATH, Shell, shell_for
from record.errors import AdapterError
from record.services import record_event
from runs.models import Phase
from runs.pipeline.outputs import below, expand, variables_in
from runs.pipeline.spec import ExcludeSpec, PipelineSpec
from runs.services.board import SeriesNames
from runs.services.exports import values_for

MOVE_TIMEOUT_S = 120
MOVED_AT_ONCE = 200
# Where both are there, the one in the way is kept beside under a number: a phase that was run again has made it anew.
MOVE = """
while [ $# -gt 0 ]; do
  if [ -e "$1" ]; then mkdir -p -- "${2%/*}" && mv --backup=numbered -T -- "$1" "$2" || [ ! -e "$1" ] || exit 1; fi
  shift 2
done
"""


def place_series(phase: Phase, spec: PipelineSpec, of_run: SeriesNames, of_lane: SeriesNames) -> list[str]:
    """Have the files that the overlay names lie where they belong, before a phase starts; the names of those moved.

    Files of all lanes are placed by the run's exclusions, those with a species' values in their path by its lane's.
    Excluded series' files go to the folder meant for them, others come back from it. Looked at again afterwards:
    AdapterError where one is still in the wrong place. Safe to repeat.
    """
    shell, work_dir = shell_for(phase.run.target), phase.run.work_dir
    there = _existing(shell, work_dir, _pairs(phase, spec, of_run, of_lane))
    if not there:
        return []
    for start in range(0, len(there), MOVED_AT_ONCE):
        words = [word for pair in there[start : start + MOVED_AT_ONCE] for word in pair]
        argv = ["bash", "-c", MOVE, "place", *words]
        done = shell.run(argv, env={"PATH": SYSTEM_PATH}, cwd=work_dir, timeout_s=MOVE_TIMEOUT_S)
        if done.returncode:
            raise AdapterError(f"Files of tilt series could not be moved: {done.stderr.strip()[:300]}", transient=False)
    if left := _existing(shell, work_dir, there):
        raise AdapterError(f"{left[0][0]} was moved to {left[0][1]}, and is there again.", transient=True)
    _say(phase, there)
    return [source for source, _ in there]


def _pairs(phase: Phase, spec: PipelineSpec, of_run: SeriesNames, of_lane: SeriesNames) -> list[tuple[str, str]]:
    """(where a file must not lie, where it belongs), relative to the work folder."""
    values = below(phase.run.work_dir, values_for(phase, spec))
    pairs = []
    for each in spec.excludes:
        in_lane = bool(variables_in(each.files))
        if in_lane and phase.species is None:
            continue
        names = of_lane if in_lane else of_run
        pairs += list(_moves(each, values, names.excluded))
        pairs += [(away, here) for here, away in _moves(each, values, names.active)]
    return pairs


def _moves(each: ExcludeSpec, values: dict[str, str], series: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(its place, the place for what is left out); none where a value isn't set, as for a species' file elsewhere."""
    for name in series:
        here, folder = expand(each.files, values, series=name), expand(each.to, values, series=name)
        if here is not None and folder is not None:
            yield here, f"{folder}/{PurePosixPath(here).name}"


def _existing(shell: Shell, work_dir: str, pairs: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    found = shell.glob(work_dir, [source for source, _ in pairs])
    return [(source, to) for source, to in pairs if found[source]]


def _say(phase: Phase, moved: Sequence[tuple[str, str]]) -> None:
    shown = ", ".join(f"{source} to {to.rpartition('/')[0]}" for source, to in moved[:5])
    more = f" and {len(moved) - 5} more" if len(moved) > 5 else ""
    record_event(
        lab_id=phase.run.lab_id,
        kind="series.move",
        subject=phase.subject(),
        message=f"{phase.named}: moved {shown}{more}, before it starts",
        data={"moved": [list(pair) for pair in moved]},
    )
