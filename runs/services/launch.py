"""Starts phases that are ready: a pre-check and the run's files outside any transaction, then the start in one."""

import shlex
from dataclasses import dataclass
from pathlib import Path

from django.db import transaction
from django.utils import timezone

from jobs.models import Job
from jobs.processes import is_alive, own_identity
from jobs.shells import Shell, shell_for, within_roots
from record.errors import AdapterError, BadInput
from runs.conf import render_conf
from runs.models import Phase, Run, Species, TiltSeries
from runs.pipeline.snapshot import folder_of
from runs.pipeline.spec import PhaseSpec, PipelineSpec, spec_of
from runs.services.board import Board, lock_run
from runs.services.looking import completion, look_for
from runs.services.moves import REASON_CHARS, fail_phase, move
from runs.services.steps import excluded_names, plan_step, script_text, step_resources
from runs.services.values import (
    EXCLUDED_FILE,
    PIPELINE_FOLDER,
    own_species_values,
    own_values,
    resolved_values,
    species_file,
)
from runs.services.verify import count_done, find_outputs
from runs.services.waking import wake_on_commit
from runs.states import PhaseState, RunState

TOOL_TIMEOUT_S = 30
MOVE_TIMEOUT_S = 120
MOVED_AT_ONCE = 500
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
SUPERSEDED = ".conductor/superseded"
LAID_OUT = ".conductor/pipeline.digest"


@dataclass(frozen=True)
class Seen:
    """The settings that were written out for a start; it counts only if they still hold when it is made."""

    conf: dict[str, str]
    species_conf: dict[str, str] | None
    excluded: list[str]


@dataclass(frozen=True)
class Ready:
    """What the preparation of a start came to: problems in words, or the items that are done and those there are."""

    problems: list[str]
    done: int = 0
    total: int = 0


def start_phase(phase_id: int) -> bool:
    """Start a phase that is ready, or fail it with what the pre-check found; whether its first job was planned.

    Does nothing where the phase is not ready any more, its run is not running, or a job of it is still about.
    """
    phase = _read(phase_id)
    if not _may_start(phase) or not _claim(phase):
        return False
    seen = _seen(phase)
    try:
        ready = _get_ready(phase)
        with transaction.atomic():
            return _begin(phase, seen, ready)
    except BadInput as error:
        problem = error.message
    except AdapterError as error:
        if error.transient:
            _note_waiting(phase, error.message)
            raise
        problem = error.message
    with transaction.atomic():
        return _begin(phase, seen, Ready([problem]))


def _claim(phase: Phase) -> bool:
    """Take the setting aside of earlier outputs upon this process; whether it is free to.

    Of two that did it at once, the slower would move the new outputs away. A claim ends with its process.
    """
    if not phase.afresh:
        return True
    own = own_identity()
    if phase.holder and phase.holder != own and is_alive(phase.holder):
        return False
    unclaimed = Phase.objects.filter(pk=phase.pk, state=PhaseState.READY, attempt=phase.attempt, holder=phase.holder)
    return unclaimed.update(holder=own) == 1


def _get_ready(phase: Phase) -> Ready:
    spec = spec_of(phase.run.snapshot)
    if problems := check_before_start(phase, spec):
        return Ready(problems)
    write_files(phase.run, spec)
    set_aside(phase, spec)
    return Ready([], *count_done(shell_for(phase.run.target), look_for(phase, spec, _active(phase.run))))


def _note_waiting(phase: Phase, message: str) -> None:
    """Say at the phase why it doesn't start; it stays ready, and is tried again."""
    reason = f"It can't be started yet: {message} It is tried again."
    Phase.objects.filter(pk=phase.pk, state=PhaseState.READY).update(reason=reason[:REASON_CHARS])


def check_before_start(phase: Phase, spec: PipelineSpec) -> list[str]:
    """Why the phase can't be started, in words; an empty list where it can."""
    run, phase_spec = phase.run, spec.by_key[phase.key]
    shell = shell_for(run.target)
    work_dir = within_roots(run.target, run.work_dir)
    values = resolved_values(spec, run, phase.species)
    problems = [
        f"{name} has no value: set it in {_where(spec, phase, name)}"
        for name in phase_spec.required_vars
        if not values.get(name)
    ]
    problems += _script_problems(run, phase_spec)
    if not problems:
        problems += _tool_problems(shell, run, phase_spec, values, work_dir)
    return problems


def lay_out(run: Run) -> None:
    """Make the run's folder with its copy of the pipeline's snapshot. Safe to repeat: a whole copy is left as it is."""
    shell = shell_for(run.target)
    marker = f"{run.work_dir}/{LAID_OUT}"
    if _read_or_none(shell, marker) == run.snapshot.digest.encode():
        return
    shell.make_folder(f"{run.work_dir}/logs")
    shell.copy_tree(str(folder_of(run.snapshot.digest)), f"{run.work_dir}/{PIPELINE_FOLDER}")
    shell.write(marker, run.snapshot.digest.encode())


def write_files(run: Run, spec: PipelineSpec) -> None:
    """Write the run's copy of the pipeline with its values, and the list of excluded series. Safe to repeat."""
    lay_out(run)
    shell = shell_for(run.target)
    folder = f"{run.work_dir}/{PIPELINE_FOLDER}"
    source = folder_of(run.snapshot.digest)
    _write_if_changed(shell, f"{folder}/pipeline.conf", render_conf(_text(source / "pipeline.conf"), own_values(run)))
    for label, values in _species_values(run, spec).items():
        own = source / species_file(spec, label)
        text = _text(own if own.exists() else source / "species.conf")
        _write_if_changed(shell, f"{folder}/{species_file(spec, label)}", render_conf(text, values))
    lines = "".join(f"{name}\n" for name in excluded_names(run))
    _write_if_changed(shell, f"{run.work_dir}/{EXCLUDED_FILE}", lines)


def _species_values(run: Run, spec: PipelineSpec) -> dict[str, dict[str, str]]:
    """label -> values of the run's own, also of species that have no lane: scripts may read every species' conf."""
    preset = spec.preset(run.preset)
    values = {label: preset.species.get(label, {}) if preset else {} for label in spec.species}
    return values | {each.label: own_species_values(spec, each) for each in Species.objects.filter(run=run)}


def set_aside(phase: Phase, spec: PipelineSpec) -> None:
    """Move what the phase made before out of its way, where it is to be run afresh; nothing is ever deleted."""
    if not phase.afresh:
        return
    run = phase.run
    shell = shell_for(run.target)
    kept = (
        f"{run.work_dir}/{SUPERSEDED}/{phase.key}{'_' + phase.species.label if phase.species else ''}.{phase.attempt}"
    )
    by_folder: dict[str, list[str]] = {}
    for path in find_outputs(shell, look_for(phase, spec, _active(run))):
        by_folder.setdefault(path.rpartition("/")[0], []).append(path)
    for folder, paths in by_folder.items():
        shell.make_folder(f"{kept}/{folder}")
        for start in range(0, len(paths), MOVED_AT_ONCE):
            _move(shell, run.work_dir, paths[start : start + MOVED_AT_ONCE], f"{kept}/{folder}")


def _move(shell: Shell, work_dir: str, paths: list[str], folder: str) -> None:
    # A path that has gone meanwhile was moved by an attempt before this one.
    script = 'for path in "${@:2}"; do mv -t "$1" -- "$path" || [ ! -e "$path" ] || exit 1; done'
    argv = ["bash", "-c", script, "set_aside", folder, *paths]
    done = shell.run(argv, env={"PATH": SYSTEM_PATH}, cwd=work_dir, timeout_s=MOVE_TIMEOUT_S)
    if done.returncode:
        raise AdapterError(f"Earlier outputs could not be set aside: {done.stderr.strip()[:300]}", transient=False)


def _begin(phase: Phase, seen: Seen, ready: Ready) -> bool:
    run = lock_run(phase.run_id)
    board = Board.load(run)
    current = board.phase(phase.pk)
    if not _may_start(current) or _seen(current) != seen:
        return False
    if ready.problems:
        found = "; ".join(problem.rstrip(".") for problem in ready.problems)
        fail_phase(current, f"The check before the start found: {found}.")
        return False
    spec = board.spec_for(current)
    before = [gate.key for gate in board.spec.gates_at(spec.key, "before")]
    move(
        current,
        "start",
        attempt=current.attempt + 1,
        afresh=False,
        holder="",
        gates_passed=[key for key in current.gates_passed if key in before],
        started_at=timezone.now(),
        ended_at=None,
        reason="",
        stale_since=None,
        stale_by=None,
        completion=completion(ready.done, ready.total),
        items_done=ready.done,
        items_total=ready.total,
        items_at_start=ready.done,
        outputs={},
        files={},
    )
    plan_step(board, current, 0)
    wake_on_commit()
    return True


def _may_start(phase: Phase) -> bool:
    run = phase.run
    if phase.state != PhaseState.READY or run.state != RunState.RUNNING or run.archived_at:
        return False
    return not Job.objects.live().filter(subject_uuid=phase.uuid).exists()


def _read(phase_id: int) -> Phase:
    return Phase.objects.select_related("run__snapshot", "run__target", "species").get(pk=phase_id)


def _seen(phase: Phase) -> Seen:
    return Seen(phase.run.conf, phase.species.conf if phase.species else None, excluded_names(phase.run))


def _active(run: Run) -> list[str]:
    return sorted(TiltSeries.objects.filter(run=run, excluded_by=None).values_list("name", flat=True))


def _where(spec: PipelineSpec, phase: Phase, name: str) -> str:
    if phase.species is None or name in spec.defaults:
        return "pipeline.conf"
    return species_file(spec, phase.species.label)


def _script_problems(run: Run, spec: PhaseSpec) -> list[str]:
    problems = []
    for name in spec.scripts:
        try:
            step_resources(run, spec, script_text(run, name))
        except OSError as error:
            problems.append(f"script {name} of the snapshot can't be read: {error.strerror}")
        except BadInput as error:
            problems.append(f"script {name}: {error.message}")
    return problems


def _tool_problems(shell: Shell, run: Run, spec: PhaseSpec, values: dict[str, str], work_dir: str) -> list[str]:
    """Which of the tools that the phase requires aren't found on the target after its environment lines."""
    if not spec.required_tools:
        return []
    checks = "\n".join(
        f"command -v {shlex.quote(tool)} >/dev/null 2>&1 || echo {shlex.quote(tool)}" for tool in spec.required_tools
    )
    done = shell.run(
        ["bash", "-c", f"{run.target.environment_lines}\n{checks}\nexit 0"],
        env={"PATH": SYSTEM_PATH, "HOME": work_dir},
        cwd=work_dir,
        timeout_s=TOOL_TIMEOUT_S,
    )
    if done.returncode:
        return [f"the environment lines of target {run.target.name} fail: {done.stderr.strip()[-300:]}"]
    missing = [tool for tool in spec.required_tools if tool in done.stdout.split()]
    return [f"{tool} is not found on target {run.target.name}: see its environment lines" for tool in missing]


def _write_if_changed(shell: Shell, path: str, text: str) -> None:
    data = text.encode()
    if _read_or_none(shell, path) != data:
        shell.write(path, data)


def _read_or_none(shell: Shell, path: str) -> bytes | None:
    """A file's bytes; None where it can't be read, which is where it isn't there yet (writing it says what else)."""
    try:
        return shell.read(path)
    except AdapterError:
        return None


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")
