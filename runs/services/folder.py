"""What Conductor itself writes and moves in a run's folder. Outside any transaction; safe to repeat."""

import difflib

from jobs.shells import SYSTEM_PATH, Shell, shell_for
from record.errors import AdapterError, BadInput
from record.prepared import Prepared
from runs.conf.files import ConfFile
from runs.models import Phase, Run, Species
from runs.pipeline.spec import PipelineSpec
from runs.pipeline.store import folder_of
from runs.services.in_place import require_unchanged
from runs.services.looking import look_for
from runs.services.tools import lay_out_tools
from runs.services.values import EXCLUDED_FILE, own_species_values, pipeline_conf, pipeline_folder, species_conf
from runs.services.verify import find_files, find_outputs

MOVE_TIMEOUT_S = 120
MOVED_AT_ONCE = 500
SUPERSEDED = ".conductor/superseded"
WRITTEN = ".conductor/written"  # conf files as they were written last
SHOWN_LINES = 20
LAID_OUT = ".conductor/pipeline.digest"

_SPECIES = Prepared(lambda run: Species.objects.filter(run=run))


def lay_out(run: Run) -> None:
    """Make the run's folder with its copy of the pipeline's snapshot, unless that is used in place.

    Safe to repeat: a whole copy is left as it is.
    """
    shell = shell_for(run.target)
    marker = f"{run.work_dir}/{LAID_OUT}"
    laid_out = _read_or_none(shell, marker)
    if laid_out == run.snapshot.digest.encode():
        return
    shell.make_folder(f"{run.work_dir}/logs")
    if laid_out is not None:
        _announce_confs(shell, run)
    if run.in_place:
        _keep_confs(shell, run)
    else:
        shell.copy_tree(str(folder_of(run.snapshot.digest)), pipeline_folder(run))
    shell.write(marker, run.snapshot.digest.encode())


def _keep_confs(shell: Shell, run: Run) -> None:
    """Before a lab's own confs are written for the first time: keep them, so that they can be put back."""
    for source in sorted(folder_of(run.snapshot.digest).glob("*.conf")):
        kept = f"{run.work_dir}/{WRITTEN}/{source.name}"
        if _read_or_none(shell, kept) is None:
            shell.write(kept, source.read_bytes())


def _announce_confs(shell: Shell, run: Run) -> None:
    """Before another version's confs are copied over those that are there: note them, so that they are taken for ours.

    BadInput, with the difference, where somebody has changed one on disk: it would be lost.
    """
    for source in sorted(folder_of(run.snapshot.digest).glob("*.conf")):
        kept = f"{run.work_dir}/{WRITTEN}/{source.name}"
        _refuse_changed(shell, f"{pipeline_folder(run)}/{source.name}", kept, source.read_bytes())
        shell.write(f"{kept}.next", source.read_bytes())


def write_files(run: Run, spec: PipelineSpec, excluded: list[str]) -> None:
    """Write the run's values into its confs, and the list of excluded series. Safe to repeat.

    BadInput where somebody has changed what is there.
    """
    shell = shell_for(run.target)
    if run.in_place:
        require_unchanged(shell, run)
    lay_out(run)
    lay_out_tools(run)
    for file in [pipeline_conf(run), *_species_confs(run, spec)]:
        _write_conf(shell, run, file)
    lines = "".join(f"{name}\n" for name in excluded)
    _write_if_changed(shell, f"{run.work_dir}/{EXCLUDED_FILE}", lines)


def _write_conf(shell: Shell, run: Run, file: ConfFile) -> None:
    """Write a conf file, unless somebody has changed it on disk since it was written; BadInput with the difference.

    What was written is kept beside, so that such a change is seen and can be put back.
    """
    path, kept = f"{pipeline_folder(run)}/{file.name}", f"{run.work_dir}/{WRITTEN}/{file.name}"
    wanted = file.text.encode()
    there, last = _refuse_changed(shell, path, kept, wanted)
    if there != wanted:
        shell.write(f"{kept}.next", wanted)  # so that a crash between the two is not taken for somebody's change
        shell.write(path, wanted)
    if last != wanted:
        shell.write(kept, wanted)


def _refuse_changed(shell: Shell, path: str, kept: str, wanted: bytes) -> tuple[bytes | None, bytes | None]:
    """BadInput where a conf file is not what was written last, nor what is to be; else what is there and what was."""
    there, last = _read_or_none(shell, path), _read_or_none(shell, kept)
    if last is not None and there not in (None, wanted, last) and there != _read_or_none(shell, f"{kept}.next"):
        raise BadInput(
            f"{path} was changed on disk since it was written for this run:\n{_difference(last, there or b'')}\n"
            f"Nothing was overwritten. Give the new values in the run's settings, or put the file back from {kept}."
        )
    return there, last


def _difference(before: bytes, after: bytes) -> str:
    """The lines that went and came, each with its sign; at most twenty."""
    old, new = (text.decode(errors="replace").splitlines() for text in (before, after))
    lines = [line for line in difflib.unified_diff(old, new, lineterm="", n=0) if line[:2] not in ("--", "++", "@@")]
    more = [f"... and {len(lines) - SHOWN_LINES} lines more"] if len(lines) > SHOWN_LINES else []
    return "\n".join([line[:200] for line in lines[:SHOWN_LINES]] + more)


def _species_confs(run: Run, spec: PipelineSpec) -> list[ConfFile]:
    """The confs of all species, also of those that have no lane: scripts may read every species' conf."""
    preset = spec.preset(run.preset)
    values = {label: preset.species.get(label, {}) if preset else {} for label in spec.species}
    values |= {each.label: own_species_values(spec, each) for each in _SPECIES.all(run.pk)}
    return [species_conf(run.snapshot, spec, label, own) for label, own in values.items()]


def set_aside(phase: Phase, spec: PipelineSpec, series: list[str]) -> None:
    """Move what the phase made before out of its way, where it is to be run afresh; nothing is ever deleted.

    What others have made, and its start makes out of date, goes the same way, by the overlay's `aside`.
    Of all the run's tilt series, `series`, excluded ones too: a later phase would find it, and once the series is
    included again it would count as done.
    """
    run = phase.run
    shell = shell_for(run.target)
    look = look_for(phase, spec, series)
    paths = find_outputs(shell, look) if phase.afresh else []
    paths += find_files(shell, look, spec.by_key[phase.key].aside)
    if not paths:
        return
    kept = (
        f"{run.work_dir}/{SUPERSEDED}/{phase.key}{'_' + phase.species.label if phase.species else ''}.{phase.attempt}"
    )
    by_folder: dict[str, list[str]] = {}
    for path in paths:
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


def _write_if_changed(shell: Shell, path: str, text: str) -> None:
    data = text.encode()
    if _read_or_none(shell, path) != data:
        shell.write(path, data)


def _read_or_none(shell: Shell, path: str) -> bytes | None:
    """A file's bytes; None where it can't be read, which is where it isn't there yet (writing it says what else)."""
    try:
        return shell.read(path)
    except AdapterError as error:
        if error.transient:
            raise
        return None
